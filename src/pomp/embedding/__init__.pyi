from pomp.embedding.comparison import agreement as agreement
from pomp.embedding.config import (
    DatasetConfig as DatasetConfig,
    ModelConfig as ModelConfig,
    TrainingConfig as TrainingConfig,
)
from pomp.embedding.dataset import (
    Dataset as Dataset,
    draw_fresh as draw_fresh,
    make_dataset as make_dataset,
)
from pomp.embedding.dataset_file import load_dataset as load_dataset, save_dataset as save_dataset
from pomp.embedding.demonstrations import (
    demonstrate as demonstrate,
    random_worlds as random_worlds,
)
from pomp.embedding.space import Embedding as Embedding

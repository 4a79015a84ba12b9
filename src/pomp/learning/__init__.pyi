from pomp.learning.baselines import BASELINES as BASELINES
from pomp.learning.config import (
    LearningConfig as LearningConfig,
    configure_learning as configure_learning,
)
from pomp.learning.random_transition import randomise as randomise
from pomp.learning.training import Member as Member, Training as Training

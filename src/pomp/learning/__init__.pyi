from pomp.core.streams import (
    Purpose as Purpose,
    draw_units as draw_units,
    open_streams as open_streams,
)
from pomp.engine.starts import reset as reset
from pomp.learning.baselines import BASELINES as BASELINES
from pomp.learning.config import (
    LearningConfig as LearningConfig,
    configure_learning as configure_learning,
)
from pomp.learning.members import Member as Member
from pomp.learning.methods import (
    LearningMethod as LearningMethod,
    TransitionLearner as TransitionLearner,
)
from pomp.learning.random_transition import randomise as randomise
from pomp.learning.training import Training as Training

from pomp.hprl.config import HprlConfig as HprlConfig, configure_hprl as configure_hprl
from pomp.hprl.policy import MetaPolicy as MetaPolicy
from pomp.hprl.training import MetaTraining as MetaTraining

from pomp.modes.batch import Batch as Batch
from pomp.modes.config import SearchConfig as SearchConfig
from pomp.modes.jobs import Job as Job
from pomp.modes.methods import METHODS as METHODS, configure as configure

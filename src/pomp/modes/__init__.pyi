from pomp.core.streams import branch as branch, draw_normal as draw_normal
from pomp.dsl.mutation import Limits as Limits, propose_programs as propose_programs
from pomp.modes.batch import Batch as Batch
from pomp.modes.config import SearchConfig as SearchConfig
from pomp.modes.jobs import Job as Job
from pomp.modes.methods import (
    METHODS as METHODS,
    TASK_MODES as TASK_MODES,
    configure as configure,
    find_method as find_method,
)
from pomp.modes.proposers import Method as Method, ProposerRun as ProposerRun

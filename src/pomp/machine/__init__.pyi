from pomp.machine.config import (
    EpisodeConfig as EpisodeConfig,
    NetworkConfig as NetworkConfig,
    QuantisingConfig as QuantisingConfig,
)
from pomp.machine.episodes import Episodes as Episodes
from pomp.machine.evaluation import (
    Evaluation as Evaluation,
    evaluate as evaluate,
    evaluate_exactly as evaluate_exactly,
)
from pomp.machine.layers import Shape as Shape, draw_weights as draw_weights
from pomp.machine.policy import ProgramMachine as ProgramMachine
from pomp.machine.text import (
    parse_machine as parse_machine,
    print_machine as print_machine,
    read_machine as read_machine,
    write_machine as write_machine,
)
from pomp.machine.transitions import (
    DecisionList as DecisionList,
    NetworkTransition as NetworkTransition,
    Rule as Rule,
)
from pomp.machine.verification import Verification as Verification, verify as verify
from pomp.machine.zoo import load_machine as load_machine

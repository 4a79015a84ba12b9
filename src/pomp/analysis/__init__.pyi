from pomp.analysis.automata import MooreAutomaton as MooreAutomaton, moore_of as moore_of
from pomp.analysis.bounds import Bound as Bound, bound as bound
from pomp.analysis.distillation import (
    DistillationConfig as DistillationConfig,
    distill as distill,
)
from pomp.analysis.distilled import (
    Distillation as Distillation,
    save_distillation as save_distillation,
)
from pomp.analysis.explanation import Explanation as Explanation, explain as explain
from pomp.analysis.extracted import (
    Extraction as Extraction,
    save_extraction as save_extraction,
)
from pomp.analysis.extraction import ExtractionConfig as ExtractionConfig, extract as extract
from pomp.analysis.levels import (
    Level as Level,
    compare_levels as compare_levels,
    levels_of as levels_of,
    read_extracted as read_extracted,
)
from pomp.analysis.moore import (
    MooreMachine as MooreMachine,
    minimise_moore as minimise_moore,
    print_moore as print_moore,
    tabulate as tabulate,
)
from pomp.analysis.pictures import (
    describe_machine as describe_machine,
    frames_of as frames_of,
)
from pomp.analysis.planning import estimate as estimate
from pomp.analysis.remembering import Quantised as Quantised, quantise as quantise
from pomp.analysis.selection import choose_modes as choose_modes
from pomp.analysis.simplification import simplify as simplify
from pomp.machine.drawing import draw_machine as draw_machine

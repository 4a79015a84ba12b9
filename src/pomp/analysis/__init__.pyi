from pomp.analysis.bounds import Bound as Bound, bound as bound
from pomp.analysis.distillation import (
    DistillationConfig as DistillationConfig,
    distill as distill,
)
from pomp.analysis.distilled import (
    Distillation as Distillation,
    save_distillation as save_distillation,
)
from pomp.analysis.extracted import (
    Extraction as Extraction,
    save_extraction as save_extraction,
)
from pomp.analysis.extraction import ExtractionConfig as ExtractionConfig, extract as extract
from pomp.analysis.pictures import (
    describe_machine as describe_machine,
    frames_of as frames_of,
)
from pomp.analysis.planning import estimate as estimate
from pomp.analysis.selection import choose_modes as choose_modes
from pomp.analysis.simplification import simplify as simplify
from pomp.machine.drawing import draw_machine as draw_machine

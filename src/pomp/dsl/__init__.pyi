from pomp.dsl.bytecode import (
    Code as Code,
    compile_ids as compile_ids,
    compile_programs as compile_programs,
)
from pomp.dsl.grammar import (
    MAX_TOKENS as MAX_TOKENS,
    published_mask as published_mask,
    strict_mask as strict_mask,
)
from pomp.dsl.parser import parse as parse
from pomp.dsl.printer import print_program as print_program
from pomp.dsl.sampling import SamplerConfig as SamplerConfig, sample_programs as sample_programs
from pomp.dsl.syntax import (
    Act as Act,
    If as If,
    IfElse as IfElse,
    Program as Program,
    Repeat as Repeat,
    While as While,
)
from pomp.dsl.vocabulary import (
    HPRL as HPRL,
    LEAPS as LEAPS,
    Action as Action,
    Perception as Perception,
    Vocabulary as Vocabulary,
)

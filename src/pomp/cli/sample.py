"""`pomp sample`."""

import json
from dataclasses import dataclass
from typing import Literal

from pomp.cli.output import say


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Draw random programs with the paper's probabilities."""

    count: int = 10
    """How many."""
    seed: int = 0
    """Program i of a seed is always the same."""
    max_tokens: int = 50
    """Longer programs are drawn again."""
    max_depth: int = 6
    """A statement deeper than this becomes an action."""
    vocabulary: Literal["leaps", "hprl"] = "leaps"
    """The dialect, with its probabilities."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print one program a line."""
        from pomp.dsl.sampling import SamplerConfig, sample_programs
        from pomp.dsl.vocabulary import HPRL, LEAPS

        vocabulary = HPRL if self.vocabulary == "hprl" else LEAPS
        config = SamplerConfig(max_depth=self.max_depth, max_tokens=self.max_tokens)
        ids = sample_programs(self.count, self.seed, config, vocabulary)
        programs = [" ".join(vocabulary.decode(row)) for row in ids.tolist()]
        if self.json:
            say(json.dumps({"programs": programs}))
        else:
            say("\n".join(programs))
        return 0

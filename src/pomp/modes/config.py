"""Settings of searches; `methods.py` says what each method changes.

Defaults are the paper's numbers. Where paper and published code disagree, they are the code's,
which made the published results; the field says what the paper has.
"""

from dataclasses import dataclass, field
from typing import Literal

from pomp.core.configs import MOST, check_choices, check_ranges
from pomp.core.errors import ConfigError

Init = Literal[
    "normal", "tiny_normal", "ones", "paper_normal", "paper_tiny_normal", "paper_ones"
]  # fmt: skip
Reduce = Literal["weighted_mean", "mean"]
Keep = Literal["best", "last", "candidate"]
Stop = Literal["converged", "solved", "never"]
Rule = Literal["climb", "anneal"]
Moves = Literal["subtree", "rich"]
Diversity = Literal["none", "runs", "modes", "modes+runs"]
Vector = Literal["latent", "behaviour"]
LeastList = Literal["ten", "square"]
Choose = Literal["each", "top"]
Select = Literal["undiversified", "diversified"]


def _check_elites(population: int, elites: int) -> None:
    if elites > population:
        raise ConfigError(
            f"a population of {population} is smaller than its {elites} elites; elite_fraction "
            "must be at most 1"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CemConfig:
    """One cross-entropy search in the latent space."""

    population: int = 64
    """Candidates of an iteration."""
    elite_fraction: float = 0.05
    """Share of the population that makes the next centre; at least one candidate."""
    sigma: float = 0.5
    """Standard deviation of the first population."""
    final_sigma: float = 0.1
    """What sigma falls to, exponentially, if it decays."""
    decay: bool = True
    """Whether sigma falls; else it stays."""
    decay_iterations: int = 500
    """Iterations it falls for."""
    iterations: int = 1000
    """Iterations at most."""
    init: Init = "normal"
    """The first centre: normal N(0, I), tiny_normal N(0, 0.01 I), ones 0.01 everywhere; the paper
    writes N(0, sigma), N(0, 0.1 sigma) and N(1, 0): paper_normal, paper_tiny_normal, paper_ones."""
    reduce: Reduce = "weighted_mean"
    """How elites make a centre. Paper: mean; the published code weighs by score."""
    keep: Keep = "best"
    """The result: best centre so far, last centre (LEAPS), or best of all, candidates included.
    Paper: silent."""
    stop: Stop = "converged"
    """converged: the last `window` centres scored alike. solved: the last ten and this one reach
    `solved_score` (LEAPS). never: all iterations. Paper: silent."""
    window: int = 100
    """Centres that are compared."""
    tolerance: float = 1e-3
    """Standard deviation of their scores, without diversity, up to which they are alike."""
    solved_score: float = 1.1
    """The score of a solved task, bonus included."""

    def __post_init__(self) -> None:
        check_ranges(
            self, population=(1, 100_000), iterations=(1, MOST), decay_iterations=(1, MOST)
        )
        check_ranges(self, sigma=(1e-9, 1e6), final_sigma=(1e-9, 1e6), window=(1, 10_000))
        check_ranges(
            self, tolerance=(0.0, 1e6), solved_score=(-1e6, 1e6), elite_fraction=(0.0, 1e6)
        )
        check_choices(self, init=Init, reduce=Reduce, keep=Keep, stop=Stop)
        _check_elites(self.population, self.elites)

    @property
    def elites(self) -> int:
        """Candidates that make the next centre."""
        return max(1, round(self.population * self.elite_fraction))

    @property
    def rows(self) -> int:
        """Candidates scored at once: a population and the centre before it."""
        return self.population + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BeamConfig:
    """Cross-entropy beam search: elites are kept, not averaged."""

    population: int = 64
    """Candidates of an iteration."""
    elite_fraction: float = 0.25
    """Share of the population that stays; at least one candidate."""
    sigma: float = 0.25
    """Standard deviation around an elite."""
    patience: int = 5
    """Iterations without a better mean of the elites before a new start from N(0, I)."""
    candidates: int = 1_000_000
    """Programs to look at."""
    solved_score: float = 1.1
    """Stop here, bonus included."""

    def __post_init__(self) -> None:
        check_ranges(self, population=(1, 100_000), patience=(1, MOST), candidates=(1, MOST))
        check_ranges(self, sigma=(1e-9, 1e6), elite_fraction=(0.0, 1e6), solved_score=(-1e6, 1e6))
        _check_elites(self.population, self.elites)

    @property
    def elites(self) -> int:
        """Candidates that stay."""
        return max(1, round(self.population * self.elite_fraction))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClimbConfig:
    """Local search in program space: chains that each change their program step by step."""

    chains: int = 64
    """Programs that are changed side by side, each one in every iteration."""
    rule: Rule = "climb"
    """climb: only what is strictly better is taken, and a chain starts over after `neighbours`
    failures. anneal: worse is taken too, less and less, and a chain starts over at its end."""
    moves: Moves = "subtree"
    """subtree: a part is replaced by a random one. rich: also insert, delete, wrap, unwrap, copy,
    move, swap, exchange a token, turn IF into IFELSE and back."""
    neighbours: int = 250
    """climb: changes tried before a new start."""
    hot: float = 0.05
    """anneal: the first temperature, in units of the score."""
    cold: float = 0.0005
    """anneal: the last temperature."""
    length: int = 2000
    """anneal: steps from hot to cold of the shortest chains; others take 2, 4 or 8 times that."""
    max_tokens: int = 45
    """Longest program, `DEF` included."""
    max_depth: int = 4
    """Deepest nesting of statements; a bare action has depth 1."""
    max_body: int = 6
    """Most statements in one body."""
    candidates: int = 1_000_000
    """Programs to look at."""
    solved_score: float = 1.1
    """Stop here, bonus included."""

    def __post_init__(self) -> None:
        check_ranges(self, chains=(1, 1_000_000), neighbours=(1, MOST), length=(1, MOST))
        check_ranges(self, hot=(0.0, 1e6), cold=(0.0, 1e6), solved_score=(-1e6, 1e6))
        check_ranges(self, max_tokens=(5, 120), max_depth=(1, 30), max_body=(1, 100))
        check_ranges(self, candidates=(1, MOST))
        check_choices(self, rule=Rule, moves=Moves)
        if self.rule == "anneal" and not 0 < self.cold <= self.hot:
            raise ConfigError(f"cold must be above 0 and not above hot, got {self.cold}")


Proposer = CemConfig | BeamConfig | ClimbConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreConfig:
    """What a candidate is worth."""

    starts: int = 10
    """Start states every candidate is tried on; 1 where all episodes of a program are the same."""
    redraw: int = 0
    """Draw new start states every so many iterations (LEAPS: 100); 0: never."""
    fresh_draws: bool = False
    """Draw what happens inside an episode anew for every candidate and iteration, as the published
    code does. Else a start has its own luck, and equal programs score alike. Paper: silent."""
    bonus: float = 0.1
    """Added to the return of a program that is one."""
    invalid: float = -1.0
    """The score of what is no program (LEAPS: 0.01)."""
    discount: float = 1.0
    """Per action. Paper: the formula has one, without a number; the published code has none."""
    exponential: bool = False
    """Take exp(score) before diversity; off in every published setting."""
    temperature: float = 1.0
    """Of the diversity multiplier: sigmoid(-temperature * largest cosine)."""
    cap: str = "calls220"
    """How long one execution may last. Paper: actions200; the published code counts 220 calls."""
    rounds: int = 1
    """Execute the candidate again and again, at most so often, until the task is done."""
    patience: int = 400
    """With rounds: actions without progress after which an episode ends."""

    def __post_init__(self) -> None:
        check_ranges(
            self, starts=(1, 100_000), redraw=(0, MOST), rounds=(1, 100_000), patience=(0, MOST)
        )
        check_ranges(self, bonus=(-100.0, 100.0), invalid=(-100.0, 100.0), temperature=(0.0, 1e6))
        check_ranges(self, discount=(1e-9, 1.0))
        if self.discount < 1 and (self.rounds > 1 or self.fresh_draws):
            raise ConfigError("a discount goes with one round and without fresh draws")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeConfig:
    """How many searches make how many modes."""

    modes: int = 1
    """Programs to find."""
    runs: int = 1
    """Searches for each of them."""
    grid: bool = False
    """One run with each of LEAPS's 216 settings instead."""
    diversity: Diversity = "none"
    """What a candidate should differ from: results of earlier runs, modes already chosen, or both.
    Paper: modes in the procedure, runs in the text; the published code uses both."""
    vector: Vector = "latent"
    """What is compared: latents (programs from elsewhere are encoded), or what programs do."""
    lists: bool = False
    """Run candidates in random lists with the modes already chosen (compatibility)."""
    least_list: LeastList = "ten"
    """Shortest list: ten programs, or (mode - 1)^2 (published code, Farmer)."""
    choose: Choose = "each"
    """each: the best run of every mode. top: the best runs of one round are the modes."""
    select: Select = "undiversified"
    """The best of a mode's runs by its score alone, or with the multiplier against the modes
    (paper)."""

    def __post_init__(self) -> None:
        check_ranges(self, modes=(1, 12 if self.lists else 100), runs=(1, 10_000))
        check_choices(self, diversity=Diversity, vector=Vector, least_list=LeastList)
        check_choices(self, choose=Choose, select=Select)
        if self.choose == "top" and self.runs < self.modes:
            raise ConfigError(f"the best {self.modes} of {self.runs} runs: that is too few runs")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig:
    """A whole search: what proposes candidates, what they are worth, how modes come of it."""

    method: str = "cem"
    """The name it goes by."""
    embedding: str = "best"
    """Shipped weights or a file; decodes latents, encodes programs."""
    proposer: Proposer = field(default_factory=CemConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)
    mode: ModeConfig = field(default_factory=ModeConfig)

    def __post_init__(self) -> None:
        if self.mode.vector == "behaviour" and not isinstance(self.proposer, ClimbConfig):
            raise ConfigError("diversity by behaviour goes with program space")
        if self.mode.grid and not isinstance(self.proposer, CemConfig):
            raise ConfigError("the grid is one of cross-entropy searches")

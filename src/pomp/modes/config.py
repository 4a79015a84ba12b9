"""Settings of searches; `methods.py` says what each method changes.

Defaults are the paper's numbers. Where paper and published code disagree, they are the code's, and
the field says what the paper has, which methods of the paper take in all presets but code.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from pomp.core.configs import ADDED, MOST, check_choices, check_parts, check_ranges
from pomp.core.errors import ConfigError

Init = Literal[
    "normal", "tiny_normal", "ones", "paper_normal", "paper_tiny_normal", "paper_ones"
]  # fmt: skip
Reduce = Literal["weighted_mean", "mean"]
Keep = Literal["best", "last", "candidate"]
Stop = Literal["converged", "solved", "never"]
Acceptance = Literal["climb", "anneal"]
Mutations = Literal["subtree", "rich"]
Diversity = Literal["none", "runs", "modes", "modes+runs"]
Vector = Literal["latent", "behaviour"]
LeastList = Literal["ten", "square"]
Choose = Literal["each", "top"]
Select = Literal["undiversified", "diversified", "bound"]


def _check_elites(population: int, elites: int) -> None:
    if elites > population:
        raise ConfigError(
            f"a population of {population} is smaller than its {elites} elites; elite_fraction "
            "must be at most 1"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CemConfig:
    """One run of the cross-entropy method in the latent space."""

    population: int = 64
    """Candidates of an iteration."""
    elite_fraction: float = 0.05
    """Share of the population that makes the next mean; at least one candidate."""
    sigma: float = 0.5
    """Standard deviation of the first population."""
    final_sigma: float = 0.1
    """What sigma decays to, exponentially, if it decays."""
    decay: bool = True
    """Whether sigma decays; else it is constant."""
    decay_iterations: int = 500
    """Iterations that sigma decays for."""
    iterations: int = 1000
    """Iterations at most."""
    init: Init = "normal"
    """The first mean: normal N(0, I), tiny_normal N(0, 0.01 I), ones 0.01 everywhere; the paper
    writes N(0, sigma), N(0, 0.1 sigma) and N(1, 0): paper_normal, paper_tiny_normal, paper_ones."""
    reduce: Reduce = "weighted_mean"
    """How elites make the next mean. Paper: mean; the published code weights them by score."""
    keep: Keep = "best"
    """The result: the best mean so far, the last mean (LEAPS), or the best of all vectors,
    candidates included. Paper: silent."""
    stop: Stop = "converged"
    """converged: the last `window` means scored alike. solved: the last ten means on average and
    the last one reach `solved_score` (LEAPS). never: all iterations are done. Paper: until the
    score converges, without a number, or all iterations are done."""
    window: int = 100
    """Means whose scores are compared."""
    tolerance: float = 1e-3
    """Standard deviation of their scores, without diversity, up to which they count as alike."""
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
        """How many candidates make the next mean."""
        return max(1, round(self.population * self.elite_fraction))

    @property
    def rows(self) -> int:
        """How many vectors are scored at once: a population and the mean it is drawn around."""
        return self.population + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BeamConfig:
    """Cross-entropy beam search: the next population is drawn around each elite, not their mean."""

    population: int = 64
    """Candidates of an iteration."""
    elite_fraction: float = 0.25
    """Share of the population that is kept; at least one candidate."""
    sigma: float = 0.25
    """Standard deviation around an elite."""
    patience: int = 5
    """Iterations without a better mean of the elites before a new start from N(0, I)."""
    candidates: int = 1_000_000
    """Budget: how many candidates are scored at most."""
    solved_score: float = 1.1
    """The score, bonus included, at which a run stops."""

    def __post_init__(self) -> None:
        check_ranges(self, population=(1, 100_000), patience=(1, MOST), candidates=(1, MOST))
        check_ranges(self, sigma=(1e-9, 1e6), elite_fraction=(0.0, 1e6), solved_score=(-1e6, 1e6))
        _check_elites(self.population, self.elites)

    @property
    def elites(self) -> int:
        """How many candidates are kept."""
        return max(1, round(self.population * self.elite_fraction))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClimbConfig:
    """Local search in program space: chains that each mutate their program step by step."""

    chains: int = 64
    """Programs that are mutated side by side, each one in every iteration."""
    acceptance: Acceptance = "climb"
    """climb: only strictly better mutations are accepted, and a chain starts over after
    `neighbours` failures. anneal: worse ones are accepted too, less and less often, and a chain
    starts over at its end."""
    mutations: Mutations = "subtree"
    """subtree: a part is replaced by a random one. rich: also insert, delete, wrap, unwrap, copy,
    move, swap, exchange a token, turn IF into IFELSE and back."""
    neighbours: int = 250
    """climb: mutations tried before a chain starts over."""
    initial_temperature: float = 0.05
    """anneal: the first temperature, in units of the score."""
    final_temperature: float = 0.0005
    """anneal: the last temperature."""
    chain_length: int = 2000
    """anneal: mutations of the shortest chains; others take 2, 4 or 8 times as many."""
    max_tokens: int = 45
    """Longest program, `DEF` included."""
    max_depth: int = 4
    """Deepest nesting of statements; a bare action has depth 1."""
    max_body: int = 6
    """Most statements in one body."""
    candidates: int = 1_000_000
    """Budget: how many candidates are scored at most."""
    solved_score: float = 1.1
    """The score, bonus included, at which a run stops."""
    given: str = field(default="", metadata=ADDED)
    """Programs that the first chains begin with, one per line."""

    def __post_init__(self) -> None:
        final = self.final_temperature
        check_ranges(self, chains=(1, 1_000_000), neighbours=(1, MOST), chain_length=(1, MOST))
        check_ranges(self, initial_temperature=(0.0, 1e6), final_temperature=(0.0, 1e6))
        check_ranges(self, max_tokens=(5, 120), max_depth=(1, 30), max_body=(1, 100))
        check_ranges(self, candidates=(1, MOST), solved_score=(-1e6, 1e6))
        check_choices(self, acceptance=Acceptance, mutations=Mutations)
        if self.acceptance == "anneal" and not 0 < final <= self.initial_temperature:
            expected = "above 0 and not above initial_temperature"
            raise ConfigError(f"final_temperature must be {expected}, got {final}")
        if len(self.given.splitlines()) > self.chains:
            count = len(self.given.splitlines())
            raise ConfigError(f"{count} programs are given, but there are {self.chains} chains")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreConfig:
    """How candidates are scored."""

    starts: int = 10
    """Start states every candidate is tried on; 1 where all episodes of a program are the same."""
    redraw: int = 0
    """Draw new start states every so many iterations (LEAPS: 100); 0: never."""
    fresh_draws: bool = False
    """Draw what happens inside an episode anew for every candidate and iteration, as the published
    code does. Else every start state has its own random stream, and equal programs score alike.
    Paper: silent."""
    bonus: float = 0.1
    """Added to the return of a valid program."""
    invalid: float = -1.0
    """The score of token ids that are no program (LEAPS: 0.01)."""
    discount: float = 1.0
    """Discount per action. Paper: the formula has one, without a number; the published code has
    none."""
    exponential: bool = False
    """Take exp(score) before diversity; off in every published setting."""
    temperature: float = 1.0
    """Temperature of the diversity multiplier, sigmoid(-temperature * largest cosine)."""
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
    """How many modes a search finds, from how many runs, and how it chooses them."""

    modes: int = 1
    """Programs to find."""
    runs: int = 1
    """Runs that each of them is chosen from."""
    grid: bool = False
    """One run with each of LEAPS's 216 settings instead."""
    shared_draws: bool = False
    """Whether all runs of a search begin at the same mean and draw the same noise, as in the
    published code, where every run begins with the search's seed; else each draws its own."""
    diversity: Diversity = "none"
    """What a candidate should differ from: results of earlier runs, modes already chosen, or both.
    Paper: modes in the procedure, runs in the text; the published code uses both."""
    vector: Vector = "latent"
    """What is compared: latents (programs from elsewhere are encoded), or the programs' effects."""
    lists: bool = False
    """Run candidates in random lists with the modes already chosen (compatibility)."""
    least_list: LeastList = "ten"
    """Shortest list: ten programs, or (mode - 1)^2 (published code, Farmer)."""
    choose: Choose = "each"
    """Which runs give the modes. each: every mode has runs of its own, and the program that the
    best of them found becomes the mode. top: there are runs for one mode alone, and the programs
    of the best of them become all the modes."""
    select: Select = "undiversified"
    """By what the best of a mode's runs is chosen. undiversified: by the score of the program that
    it found. diversified: by that score times the program's diversity from the modes chosen
    before (paper). bound: likewise, and at the end all modes are chosen anew from all runs, by what
    the best transitions could earn from them (`pomp.analysis.choose_modes`)."""

    def __post_init__(self) -> None:
        check_ranges(self, modes=(1, 12 if self.lists else 100), runs=(1, 10_000))
        check_choices(self, diversity=Diversity, vector=Vector, least_list=LeastList)
        check_choices(self, choose=Choose, select=Select)
        if self.choose == "top" and self.select == "bound":
            raise ConfigError("the best runs of one round are the modes, so select=bound has none")
        if self.choose == "top" and self.runs < self.modes:
            raise ConfigError(f"the best {self.modes} of {self.runs} runs: that is too few runs")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig:
    """A search: what proposes candidates, how they are scored, how modes are chosen."""

    method: str = "cem"
    """The name it goes by."""
    embedding: str = "best"
    """Shipped weights or a file; decodes latents, encodes programs."""
    proposer: Any = field(default_factory=CemConfig)
    """The settings of what proposes candidates: those of the method."""
    score: ScoreConfig = field(default_factory=ScoreConfig)
    mode: ModeConfig = field(default_factory=ModeConfig)

    def __post_init__(self) -> None:
        check_parts(self, embedding=str, score=ScoreConfig, mode=ModeConfig)
        if self.mode.grid and not isinstance(self.proposer, CemConfig):
            raise ConfigError("the grid is one of cross-entropy searches")

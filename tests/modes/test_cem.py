"""The cross-entropy method against a transcription of its procedure; the laws of its lists."""

import math
from itertools import product

import numpy as np
import pytest

from pomp.modes.cem import CemRun, sigma_at
from pomp.modes.config import CemConfig
from pomp.modes.lists import draw_lists, least_length
from pomp.modes.methods import leaps_grid

CANDIDATE = -2

# ---------------------------------------------------------------- the procedure, transcribed


class Plain:
    """One search as it is written down; it is given populations, it does not draw them."""

    def __init__(self, config):
        self.config = config
        self.best, self.best_score, self.best_plain = None, 0.0, 0.0
        self.scores, self.plain = [], []

    def elites(self, scores, ties):
        """The largest (score, text); what is equal in both: the first."""
        wanted = max(1, round(self.config.population * self.config.elite_fraction))
        keys = [(score, *tie, -i) for i, (score, tie) in enumerate(zip(scores, ties, strict=True))]
        return sorted(range(len(keys)), key=keys.__getitem__, reverse=True)[:wanted]

    def move_mean(self, latents, scores, plain, ties):
        chosen = self.elites(scores.tolist(), ties.tolist())
        vectors, weights = latents[chosen].astype(np.float64), scores[chosen]
        if self.config.keep == "candidate":
            for i in range(len(latents)):
                self.keep_better(latents[i], scores[i], plain[i])
        if self.config.reduce == "mean":
            return vectors.mean(axis=0)
        return weights @ vectors / (weights.sum() + 1e-5)

    def keep_better(self, latent, score, plain):
        if score > self.best_score:
            self.best, self.best_score, self.best_plain = latent.copy(), score, plain

    def judge(self, latest, score, plain):
        """Take a mean's own score; whether the search ends with it."""
        self.scores.append(score)
        self.plain.append(plain)
        if self.config.keep == "last":
            self.best, self.best_score, self.best_plain = latest.copy(), score, plain
        else:
            self.keep_better(latest, score, plain)
        done, window, enough = len(self.scores), self.config.window, self.config.solved_score
        if self.config.stop == "converged" and done >= window:
            is_over = np.std(self.plain[-window:]) <= self.config.tolerance
        elif self.config.stop == "solved" and done >= 10:
            is_over = np.mean(self.plain[-10:]) >= enough and plain >= enough
        else:
            is_over = False
        return is_over or done == self.config.iterations


def landscape(steps, shift=1.0):
    """A smooth hill with a slope across it; with `steps`, a staircase on which many are equal."""

    def score(latents):
        plain = shift + 0.1 - ((latents.astype(np.float64) - 0.3) ** 2).mean(axis=1)
        if steps:
            plain = np.round(plain * steps) / steps
        multiplier = 1.0 / (1.0 + np.exp(-np.tanh(latents[:, 0].astype(np.float64))))
        if steps:
            multiplier = np.round(multiplier * 4) / 4
        ties = (np.abs(latents[:, :2]) * 3).astype(np.uint8)
        return plain * multiplier, plain, ties

    return score


def random_config(draw):
    return CemConfig(
        population=int(draw.integers(2, 14)),
        elite_fraction=float(draw.choice([0.05, 0.1, 0.2, 0.5])),
        sigma=float(draw.choice([0.1, 0.25, 0.5])),
        decay=bool(draw.integers(2)),
        decay_iterations=int(draw.integers(1, 12)),
        iterations=int(draw.integers(1, 30)),
        init=str(draw.choice(["normal", "tiny_normal", "ones"])),
        reduce=str(draw.choice(["weighted_mean", "mean"])),
        keep=str(draw.choice(["best", "last", "candidate"])),
        stop=str(draw.choice(["converged", "solved", "never"])),
        window=int(draw.integers(2, 8)),
        tolerance=float(draw.choice([1e-3, 0.05])),
        solved_score=float(draw.choice([0.3, 0.8])),
    )


def check_whole_run(config, dimensions, score, stream):
    """Advance both; compare everything after every iteration. Returns the iterations."""
    run = CemRun(config, np.uint64(stream), dimensions)
    oracle = Plain(config)
    n, asked = config.population, 0
    while not run.is_finished:
        asked += 1
        assert run.iteration == asked
        assert run.sigma == pytest.approx(expected_sigma(config, asked))
        latents = run.ask()
        assert (latents.shape, latents.dtype) == ((n + 1, dimensions), np.float32)
        assert np.array_equal(latents[n], run.mean)
        scores, plain, ties = score(latents)
        counted = list(range(n + 1))[run.tell(latents, scores, plain, ties)]
        if asked > 1 and oracle.judge(latents[n], scores[n], plain[n]):
            assert run.is_finished
            assert counted == [n]  # nobody looks at the population around the last mean
        else:
            assert not run.is_finished
            assert counted == list(range(n + (asked > 1)))  # the first mean is no result
            latest = oracle.move_mean(latents[:n], scores[:n], plain[:n], ties[:n])
            np.testing.assert_allclose(run.mean, latest, rtol=2e-5, atol=2e-6)
        if oracle.best is not None:  # else what a result would be is not said
            assert run.best_score == oracle.best_score
            assert run.best_plain == oracle.best_plain
            assert np.array_equal(run.best, oracle.best)
    return len(oracle.scores)


def expected_sigma(config, iteration):
    if not config.decay:
        return config.sigma
    steps = min(max(iteration - 2, 0), config.decay_iterations)
    return config.sigma * (config.final_sigma / config.sigma) ** (steps / config.decay_iterations)


# ---------------------------------------------------------------- whole runs


@pytest.mark.parametrize("case", range(120))
def test_whole_runs_follow_the_procedure(case):
    draw = np.random.default_rng(case)
    config = random_config(draw)
    score = landscape(steps=[0, 4, 20][case % 3], shift=[1.0, 0.2, -1.0][case // 3 % 3])
    check_whole_run(config, int(draw.integers(1, 9)), score, 7919 * case)


def test_the_published_constants_are_followed_too():
    config = CemConfig(iterations=130, tolerance=1e-9)
    assert check_whole_run(config, 256, landscape(0), 3) == 130


def test_a_constant_score_stops_after_the_window():
    # "A mean stuck on a do-nothing program therefore stops after 100 iterations."
    def score(latents):
        plain = np.full(len(latents), 0.1)
        return plain, plain, (latents[:, :1] > 0).astype(np.uint8)

    assert check_whole_run(CemConfig(population=4), 3, score, 1) == 100


def test_only_the_score_without_diversity_says_when_to_stop():
    def score(latents):
        plain = np.full(len(latents), 0.5)
        return plain * (1 + np.abs(latents[:, 0])), plain, np.zeros((len(latents), 1), np.uint8)

    assert check_whole_run(CemConfig(population=4, window=6), 3, score, 1) == 6


def test_nothing_at_or_below_zero_is_kept():
    run = CemRun(CemConfig(population=4, iterations=5), np.uint64(0), 3)
    while not run.is_finished:
        run.tell(run.ask(), np.zeros(5), np.zeros(5), np.zeros((5, 1), np.uint8))
    assert run.best_score == 0.0


def scores_by_mean(config, values):
    """Run with given scores of means, one after another; how many means were looked at."""
    run = CemRun(config, np.uint64(5), 2)
    run.tell(run.ask(), np.zeros(config.population + 1), np.zeros(config.population + 1), NO_TIES)
    for done, value in enumerate(values, 1):
        scores = np.zeros(config.population + 1)
        scores[-1] = value
        run.tell(run.ask(), scores, scores, NO_TIES)
        if run.is_finished:
            return done
    return 0


NO_TIES = np.zeros((5, 1), np.uint8)
SOLVED = CemConfig(population=4, stop="solved", keep="last")


def test_a_solved_task_stops_once_ten_means_solved_it():
    # "the mean of the last 10 elite-mean scores and the current one are both >= 1.1": there have
    # to be ten (the published loop says so too), and the current one is among them.
    assert scores_by_mean(SOLVED, [1.1] * 30) == 10
    assert scores_by_mean(SOLVED, [0.5] * 7 + [1.1] * 30) == 17


def test_the_mean_of_ten_counts_not_each_of_them():
    assert scores_by_mean(SOLVED, [3.0] + [0.9] * 8 + [1.1] + [0.0] * 5) == 10


def test_a_task_that_is_solved_now_and_then_goes_on():
    assert scores_by_mean(SOLVED, [1.1] * 8 + [1.0] + [1.1] * 8 + [1.0] + [1.1] * 8) == 0


def test_a_good_average_with_a_bad_last_mean_goes_on():
    assert scores_by_mean(SOLVED, [1.5] * 9 + [1.0]) == 0


# ---------------------------------------------------------------- sigma, elites, first means


@pytest.mark.parametrize(
    ("iteration", "sigma"),
    [(1, 0.5), (2, 0.5), (102, 0.362), (252, 0.224), (502, 0.1), (1000, 0.1)],
)
def test_sigma_decays_as_published(iteration, sigma):
    assert sigma_at(CemConfig(), iteration) == pytest.approx(sigma, abs=5e-4)


def test_sigma_stays_without_decay_and_where_it_is_final():
    for iteration in (1, 2, 300, 999):
        assert sigma_at(CemConfig(decay=False, sigma=0.25), iteration) == 0.25
        assert sigma_at(CemConfig(sigma=0.1), iteration) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("population", "fraction", "elites"),
    [(64, 0.05, 3), (8, 0.05, 1), (16, 0.05, 1), (32, 0.05, 2), (16, 0.1, 2), (64, 0.2, 13)],
)
def test_the_number_of_elites_is_rounded(population, fraction, elites):
    assert CemConfig(population=population, elite_fraction=fraction).elites == elites


def test_populations_are_normal_around_the_mean():
    run = CemRun(CemConfig(), np.uint64(11), 256)
    drawn = []
    for _ in range(3):
        latents = run.ask()
        drawn.append((latents[:-1] - run.mean) / run.sigma)
        scores = np.linspace(1, 2, 65)
        run.tell(latents, scores, scores, np.zeros((65, 1), np.uint8))
    noise = np.concatenate(drawn).astype(np.float64)
    error = 4.5 / math.sqrt(noise.size)
    assert abs(noise.mean()) < error
    assert abs((noise**2).mean() - 1) < error * math.sqrt(2)
    assert abs((noise**3).mean()) < error * math.sqrt(15)
    assert abs((noise**4).mean() - 3) < error * math.sqrt(96)
    likeness = np.corrcoef(noise)[np.triu_indices(len(noise), 1)]
    assert np.abs(likeness).max() < 5.5 / math.sqrt(256)
    assert np.abs(np.corrcoef(noise.T)[np.triu_indices(256, 1)]).max() < 5.5 / math.sqrt(192)


@pytest.mark.parametrize(
    ("init", "mean", "spread"),
    [
        ("normal", 0.0, 1.0),
        ("tiny_normal", 0.0, 0.1),
        ("ones", 0.01, 0.0),
        ("paper_normal", 0.0, 0.25),
        ("paper_tiny_normal", 0.0, 0.025),
        ("paper_ones", 1.0, 0.0),
    ],
)
def test_first_means_are_drawn_as_named(init, mean, spread):
    config = CemConfig(init=init, sigma=0.25)
    means = np.array([CemRun(config, np.uint64(seed * 77), 256).mean for seed in range(40)])
    assert means.mean() == pytest.approx(mean, abs=1e-7 + 5 * spread / 100)
    assert means.std() == pytest.approx(spread, abs=1e-7 + 5 * spread / 140)


def test_the_grid_has_every_combination_once():
    sigmas, fractions, inits = (0.1, 0.25, 0.5), (0.05, 0.1, 0.2), ("normal", "tiny_normal", "ones")
    expected = set(product((8, 16, 32, 64), sigmas, fractions, (True, False), inits))
    names = ("population", "sigma", "elite_fraction", "decay", "init")
    assert {tuple(row[name] for name in names) for row in leaps_grid()} == expected
    assert len(leaps_grid()) == 216


# ---------------------------------------------------------------- lists


def law_of_lengths(modes, least, longest=400):
    """P(length) of a list, exactly; the two loops one after the other."""
    until_it = [0.0] + [(modes / (modes + 1)) ** (i - 1) / (modes + 1) for i in range(1, longest)]
    more = [((modes + 1) / (modes + 2)) ** i / (modes + 2) for i in range(longest)]
    law = np.convolve(until_it, more)[:longest]
    law[:least] = 0.0
    return law / law.sum()


def many_lists(modes, least, count=1500):
    draw = np.random.default_rng(modes)
    streams = draw.integers(0, 2**63, max(count >> modes, 100)).astype(np.uint64)
    return [row[row != -1] for s in streams for row in draw_lists(modes, least, s)]


PUBLISHED = [(0, 10, 11.0, 1.0), (1, 10, 12.0, 0.44), (2, 10, 13.3, 0.28), (3, 10, 14.8, 0.21)]
PUBLISHED += [(4, 10, 16.3, 0.17), (0, 0, 2.0, 1), (1, 1, 4.0, None), (2, 4, 7.9, None)]
PUBLISHED += [(3, 9, 13.8, None), (4, 16, 21.7, None)]


@pytest.mark.parametrize(("modes", "least", "mean", "share"), PUBLISHED)
def test_lists_have_the_published_statistics(modes, least, mean, share):
    lists = many_lists(modes, least)
    lengths = np.array([len(row) for row in lists])
    law = law_of_lengths(modes, least)
    expected = law @ np.arange(len(law))
    spread = math.sqrt(law @ (np.arange(len(law)) - expected) ** 2 / len(lists))
    assert expected == pytest.approx(mean, abs=0.1)  # the table was simulated
    assert abs(lengths.mean() - expected) < 4 * spread
    for length in range(least, least + 6):
        error = math.sqrt(law[length] * (1 - law[length]) / len(lists))
        assert abs((lengths == length).mean() - law[length]) <= 4 * error
    if share is not None:
        found = sum((row == CANDIDATE).sum() for row in lists) / lengths.sum()
        assert found == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("modes", range(5))
def test_every_list_has_the_candidate_and_only_what_there_is(modes):
    for stream in range(30):
        lists = draw_lists(modes, 10, np.uint64(stream * 10**15))
        assert len(lists) == 2**modes
        for row in lists:
            length = int((row != -1).sum())
            assert length >= 10
            assert (row[length:] == -1).all()
            assert CANDIDATE in row
            assert set(row[:length]) <= {CANDIDATE, *range(modes)}


def test_every_program_is_as_likely_as_any_other_before_and_behind_the_candidate():
    lists = many_lists(3, 0, count=8000)
    firsts = np.array([row[0] for row in lists])
    behind = np.concatenate([row[np.argmax(row == CANDIDATE) + 1 :] for row in lists])
    for drawn in (firsts, behind):
        for number in (CANDIDATE, 0, 1, 2):
            share = (drawn == number).mean()
            assert share == pytest.approx(0.25, abs=4 * math.sqrt(0.1875 / len(drawn)))
    lengths = np.array([len(row) for row in lists])
    assert (lengths == 1).mean() == pytest.approx(1 / 4 / 5, abs=0.01)


def test_the_shortest_lists():
    assert [least_length("ten", modes) for modes in range(5)] == [10] * 5
    assert [least_length("square", modes) for modes in range(5)] == [0, 1, 4, 9, 16]

"""Hill climbing and beam search, each against a transcription of its procedure."""

import numpy as np
import pytest

from pomp.dsl.vocabulary import LEAPS
from pomp.modes.beam import BeamRun
from pomp.modes.climb import ClimbRun
from pomp.modes.config import BeamConfig, ClimbConfig


def text_of(row):
    return " ".join(LEAPS.decode(row))


def test_hill_climbing_takes_the_first_better_mutant_or_starts_over():
    run = ClimbRun(ClimbConfig(chains=5, neighbours=6, candidates=600), np.uint64(3))
    current, failures, best, iterations = [None] * 5, [0] * 5, 0.0, 0
    while not run.is_finished:
        assert run.is_new.tolist() == [one is None for one in current]
        ids, iterations = run.ask(), iterations + 1
        scores = (ids.astype(np.int64) ** 2).sum(axis=1) % 97 / 100.0
        run.tell(ids, scores, scores, ids)
        for i, score in enumerate(scores):
            is_better = current[i] is None or score > current[i][0]
            current[i] = (score, text_of(ids[i])) if is_better else current[i]
            failures[i] = 0 if is_better else failures[i] + 1
            if failures[i] == 6:
                current[i], failures[i] = None, 0
            else:
                assert text_of(run.programs[i]) == current[i][1]
        best = max(best, scores.max())
    assert (iterations, run.best_score) == (120, best)


def test_a_beam_varies_elites_and_starts_over_after_five_idle_iterations():
    run, before, fresh = BeamRun(BeamConfig(), np.uint64(1), 256), np.zeros((16, 256)), []
    for iteration in range(1, 15):
        latents = run.ask()
        nearest = np.linalg.norm(latents[:, None] - before, axis=2).min(axis=1) / 16
        if nearest.mean() > 0.5:  # N(0, I) is far from everything
            fresh.append(iteration)
            assert (latents.mean(), latents.std()) == pytest.approx((0, 1), abs=0.03)
        else:
            assert nearest == pytest.approx(np.full(64, 0.25), abs=0.06)
        scores = np.where(np.arange(64) % 4 == 0, 1.0, 0.5)
        run.tell(latents, scores, scores, np.zeros((64, 1), np.uint8))
        before = latents[::4]
    assert fresh == [1, 7, 13]

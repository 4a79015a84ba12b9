"""Revisions of methods rise together with the recorded small runs.

`tests/data/revisions.json` says, for the engine and every row of the tables, which revision it has
and which runs of `recorded_runs.json` show that it still returns the same, with their digest.
Whoever records such a run anew finds this test failing: raise the revision in
`experiments/rows.py`, and write it here with the new digest. Results of older revisions are then
refused beside new ones.
"""

import hashlib
import json
from pathlib import Path

import pytest

from pomp.experiments.rows import ENGINE_REVISION, ROWS

DATA = Path(__file__).parents[1] / "data"
RECORDED = json.loads((DATA / "recorded_runs.json").read_text())
REVISIONS = json.loads((DATA / "revisions.json").read_text())


def digest(names):
    text = json.dumps({name: RECORDED[name] for name in names}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_engine_and_every_row_have_a_revision_that_runs_stand_for():
    assert set(REVISIONS) == {"engine", *ROWS}
    assert all(one["runs"] for one in REVISIONS.values())


@pytest.mark.parametrize("name", REVISIONS)
def test_a_recorded_run_that_changed_raises_the_revision(name):
    told = REVISIONS[name]
    now = ENGINE_REVISION if name == "engine" else ROWS[name].revision
    assert (told["revision"], told["digest"]) == (now, digest(told["runs"]))

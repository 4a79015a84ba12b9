"""TensorBoard's event files, read back: they say what `metrics.jsonl` says, after a resume, too."""

import json
import sys

import pytest

import pomp
from commands import call
from pomp.core import DataFileError
from pomp.runs.event_files import EVENTS_FILE, write_events
from pomp.runs.survey import best_member

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

SMALL = ("chains=8", "starts=4", "validation_starts=8", "steps=40")
EVOLVE = tuple(part for one in SMALL for part in ("--set", one))
MODES = ("DEF run m( turnLeft move turnRight move m)", "DEF run m( turnLeft m)")
TRAIN = {
    "ppo.total": 512, "ppo.actors": 8, "ppo.steps": 16, "ppo.minibatch": 32,
    "validation.every": 2, "validation.episodes": 8,
}  # fmt: skip


def scalars_of(file, tag):
    """Steps and values of a curve, as TensorBoard reads them."""
    found = accumulator.EventAccumulator(str(file))
    found.Reload()
    return [(event.step, pytest.approx(event.value)) for event in found.Scalars(tag)]


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_an_evolution_writes_its_rounds_and_a_resumed_one_no_more(capsys, tmp_path):
    out = tmp_path / "run"
    asked = ("evolve", "Farmer", "--out", out, "--rounds", "3", *EVOLVE, "--tensorboard")
    status, _, errors = call(capsys, *asked)
    assert status == 0, errors
    place = out / "Farmer" / "seed0"
    expected = [(one["evaluated"], one["score"]) for one in lines_of(place)]
    assert len(expected) == 3
    assert scalars_of(place / EVENTS_FILE, "score") == expected
    whole = (place / EVENTS_FILE).read_bytes()
    # As after a kill: the checkpoint, and with it the metrics, are behind the event file.
    metrics = place / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join(lines[:1]))
    write_events(out)
    assert scalars_of(place / EVENTS_FILE, "score") == expected[:1]
    metrics.write_text("".join(lines))
    (place / EVENTS_FILE).open("ab").write(b"torn")
    write_events(out)
    assert (place / EVENTS_FILE).read_bytes() == whole
    assert call(capsys, *asked, "--resume")[0] == 0
    assert (place / EVENTS_FILE).read_bytes() == whole


def test_a_file_that_is_watched_grows_and_is_not_replaced(tmp_path):
    (tmp_path / "config.json").write_text('{"kind": "embedding"}')
    metrics, file = tmp_path / "metrics.jsonl", tmp_path / EVENTS_FILE
    lines = [json.dumps({"epoch": epoch, "train": {"kl": epoch / 2}}) + "\n" for epoch in range(3)]
    write_events(tmp_path)
    assert not file.exists()
    places = set()
    for count in (1, 3):
        metrics.write_text("".join(lines[:count]))
        write_events(tmp_path)
        places.add(file.stat().st_ino)
        assert scalars_of(file, "train/kl") == [(n, n / 2) for n in range(count)]
    assert len(places) == 1


def test_a_training_names_the_members_it_has(tmp_path):
    settings = {**TRAIN, "learning_rates": (1e-3, 1e-2)}
    pomp.train("UpNDown", preset="paper", modes=MODES, settings=settings, out=tmp_path / "run")
    write_events(tmp_path / "run")
    place = tmp_path / "run" / "UpNDown" / "seed0"
    for rate in (1e-3, 1e-2):
        own = [one for one in lines_of(place) if one["learning_rate"] == rate]
        expected = [(one["steps"], one["return"]) for one in own]
        assert scalars_of(place / EVENTS_FILE, f"modes2 rate{rate}/return") == expected


def test_a_training_names_its_tries(tmp_path):
    settings = {**TRAIN, "tries": 2}
    pomp.train("UpNDown", preset="paper", modes=MODES, settings=settings, out=tmp_path / "run")
    write_events(tmp_path / "run")
    place = tmp_path / "run" / "UpNDown" / "seed0"
    for attempt, name in ((None, "modes2 rate0.001"), (1, "modes2 rate0.001 attempt1")):
        own = [one for one in lines_of(place) if one.get("attempt") == attempt]
        expected = [(one["steps"], one["policy_loss"]) for one in own]
        assert scalars_of(place / EVENTS_FILE, f"{name}/policy_loss") == expected
    assert [one["update"] for one in best_member(lines_of(place))] == [2, 4]


def test_a_training_that_was_resumed_has_the_same_events(capsys, tmp_path):
    modes = tmp_path / "modes.txt"
    modes.write_text("\n".join(MODES))
    changes = [part for name, value in TRAIN.items() for part in ("--set", f"{name}={value}")]
    asked = ("train", "UpNDown", "--preset", "paper", "--modes", modes, *changes, "--tensorboard")
    assert call(capsys, *asked, "--out", tmp_path / "whole")[0] == 0
    cut = (*asked, "--out", tmp_path / "cut")
    status, output, _ = call(capsys, *cut, "--minutes", "0.0001")
    assert (status, "stopped" in output) == (0, True)
    assert call(capsys, *cut, "--resume")[0] == 0
    whole, resumed = (tmp_path / name / "UpNDown" / "seed0" for name in ("whole", "cut"))
    expected = [(one["steps"], one["return"]) for one in lines_of(whole)]
    assert scalars_of(resumed / EVENTS_FILE, "return") == expected
    assert (resumed / EVENTS_FILE).read_bytes() == (whole / EVENTS_FILE).read_bytes()


def test_a_search_writes_its_best_return_so_far(capsys, tmp_path):
    out = tmp_path / "run"
    asked = ("search", "Seesaw", "--method", "annealing", "--set", "proposer.candidates=200")
    assert call(capsys, *asked, "--out", out, "--tensorboard")[0] == 0
    place = out / "Seesaw" / "seed0"
    found = scalars_of(place / EVENTS_FILE, "best_return")
    [record] = lines_of(place)
    grown = [(spent, value) for _, spent, value in record["curve"]]
    assert found == [*grown, (record["executions"], grown[-1][1])]


def test_a_missing_package_is_named_before_any_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    out = tmp_path / "run"
    status, _, errors = call(capsys, "evolve", "Farmer", "--out", out, "--tensorboard")
    assert status == 2
    assert "needs tensorboard, which is not installed: pip install 'pomp-rl[tensorboard]'" in errors
    assert not out.exists()


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(DataFileError, match="holds no run"):
        write_events(tmp_path)

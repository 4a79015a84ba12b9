"""The baseline MMN as a run: quantised, with a Moore machine beside it; resumed; bad input."""

import json

import numpy as np
import pytest

import pomp
from commands import call, change
from pomp.analysis.remembering import quantise
from pomp.core.errors import ConfigError, DataFileError
from pomp.core.storage import pack_arrays, unpack_arrays
from pomp.experiments.cells import Cell
from pomp.experiments.reproduction import reproduce
from pomp.experiments.specs import list_cells
from pomp.machine import load_machine

QUICK = {
    "quantising.seen_units": 4,
    "quantising.state_units": 3,
    "quantising.bottleneck.steps": 20,
    "quantising.epochs": 2,
    "quantising.every": 1,
    "quantising.episodes": 4,
    "quantising.most_steps": 12,
    "quantising.trials": 4,
    "network.hidden": 8,
    "network.memory": 6,
    "ppo.actors": 4,
    "ppo.steps": 8,
    "ppo.minibatch": 8,
    "episode.most_steps": 20,
    "validation.every": 2,
    "validation.episodes": 4,
    "validation.needs_end": False,
}
ASKED = {"preset": "paper", "method": "mmn", "settings": {**QUICK, "ppo.total": 128}}


def stop(event):
    return True


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny training; its folder."""
    out = tmp_path_factory.mktemp("mmn") / "run"
    pomp.train("Maze", **ASKED, out=out)
    return out


def test_a_training_writes_the_quantised_network_and_its_moore_machine(trained):
    place = trained / "Maze" / "seed0"
    told = json.loads((place / "evaluation.json").read_text())
    quantised, moore = load_machine(place / "machine"), load_machine(place / "moore")
    assert told["transitions"] == quantised.transition.kind == "quantised network"
    assert pomp.evaluate(quantised).mean == told["mean"]
    assert pomp.evaluate(load_machine(place / "network")).mean == told["network"]
    assert pomp.evaluate(moore).mean == told["moore"]["mean"]
    table = json.loads((place / "moore.json").read_text())
    assert table["following"] == moore.transition.following.tolist()
    assert len(table["following"]) == told["moore"]["states"] <= told["moore"]["states_before"]
    assert (place / "moore.dot").read_text().count("shape=box") == 1
    summary = json.loads((trained / "summary.json").read_text())
    assert summary["tasks"]["Maze"]["mean"] == told["mean"]


def test_a_training_that_was_stopped_ends_with_the_same_files(trained, tmp_path):
    out = tmp_path / "run"
    for _ in range(3):
        pomp.train(*([] if out.exists() else ["Maze"]), **({} if out.exists() else ASKED),
                   out=out, resume=out.exists(), on_event=stop)  # fmt: skip
    assert pomp.train(out=out, resume=True).is_finished
    for path in (one for one in trained.rglob("*") if one.suffix in (".safetensors", ".json")):
        assert (out / path.relative_to(trained)).read_bytes() == path.read_bytes(), path.name


def test_a_cell_of_the_table_has_the_quantised_network(tmp_path):
    cells = list_cells(
        "table2", methods=["mmn"], tasks=["Seesaw"], seeds=0, budget=0.0001, settings=QUICK
    )
    assert [one.stage for one in cells] == ["learn", "policy"]
    found = reproduce(cells, out=tmp_path / "store")
    assert found.is_finished
    policy = found.results[-1].values
    assert {"network", "moore", "mean"} <= set(policy)
    assert policy["moore"]["states"] >= 1


def test_only_cells_of_a_network_that_remembers_depend_on_how_it_is_quantised():
    assert "quantising" in Cell(method="mmn", task="Farmer", seed=0).settings()
    for name in ("drl", "psmp", "pomp"):
        assert "quantising" not in json.dumps(Cell(method=name, task="Farmer", seed=0).settings())


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("network", "extracting a table of modes and observations needs transitions that know"),
        ("machine", "extracting a table of modes and observations needs transitions that know"),
        ("moore", "extracting a table of modes and observations needs transitions that know"),
    ],
)
def test_what_remembers_is_not_extracted_as_a_table_of_modes(
    trained, tmp_path, capsys, folder, message
):
    given = trained / "Maze" / "seed0" / folder
    status, _, error = call(capsys, "extract", given, "--out", tmp_path / "new")
    assert (status, error.count("\n")) == (2, 1)
    assert message in error


def test_what_does_not_remember_is_not_quantised():
    machine = load_machine("zoo:Snake/network")
    with pytest.raises(ConfigError, match=r"this machine has none: Snake: .* pomp extract takes"):
        quantise(machine)


def test_a_training_of_another_method_is_refused(trained, capsys):
    status, _, error = call(capsys, "train", "--method", "drl", "--out", trained, "--resume")
    assert (status, error.count("\n")) == (2, 1)
    assert "begun with the method mmn, not with the method drl" in error


def test_mini_batches_that_cut_sequences_are_one_line(tmp_path, capsys):
    settings = change(["ppo.minibatch=32"])
    given = ("train", "Maze", "--method", "mmn", "--out", tmp_path / "run", *settings)
    status, _, error = call(capsys, *given)
    assert (status, error.count("\n")) == (2, 1)
    assert "ppo.minibatch must be a multiple of ppo.steps, got 32" in error


@pytest.mark.parametrize("folder", ["machine", "moore"])
def test_weights_of_another_network_are_refused(trained, tmp_path, folder):
    place = trained / "Maze" / "seed0" / folder
    values = json.loads((place / "machine.json").read_text())
    values["transition"]["config"]["hidden"] += 1
    values.pop("checksum")
    (tmp_path / "machine.json").write_text(json.dumps(values))
    (tmp_path / "machine.safetensors").write_bytes((place / "machine.safetensors").read_bytes())
    with pytest.raises(DataFileError, match=r"the array .* must be float32 of shape"):
        load_machine(tmp_path)


@pytest.mark.parametrize("folder", ["machine", "moore"])
def test_weights_of_another_type_are_refused(trained, tmp_path, folder):
    place = trained / "Maze" / "seed0" / folder
    arrays, header = unpack_arrays((place / "machine.safetensors").read_bytes())
    arrays["seen.encoder.0.weight"] = arrays["seen.encoder.0.weight"].astype(np.int64)
    (tmp_path / "machine.json").write_bytes((place / "machine.json").read_bytes())
    (tmp_path / "machine.safetensors").write_bytes(pack_arrays(arrays, header))
    with pytest.raises(DataFileError, match=r"must be float32 of shape .*, got int64"):
        load_machine(tmp_path)

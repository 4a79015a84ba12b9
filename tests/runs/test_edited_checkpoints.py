"""Checkpoints and datasets that somebody edited: told in a line, before compiled code sees them."""

import shutil

import numpy as np
import pytest

import pomp
from pomp.core.errors import DataFileError
from pomp.core.storage import read_arrays, write_arrays
from pomp.embedding import DatasetConfig, load_dataset, make_dataset, save_dataset

EVOLVE = {"chains": 4, "starts": 4, "validation_starts": 4, "steps": 10, "teams": 2}
MODES = ("DEF run m( move m)", "DEF run m( turnLeft m)")
PPO = {
    "ppo.total": 256, "ppo.actors": 4, "ppo.steps": 8, "ppo.minibatch": 16,
    "validation.every": 1, "validation.episodes": 2, "learning_rates": (0.001,),
}  # fmt: skip


def edit_arrays(path, change):
    """Change the arrays and values of a file, and put its checksum right."""
    arrays, values = read_arrays(path, "checkpoint")
    arrays = {name: np.array(array) for name, array in arrays.items()}
    change(arrays, values)
    write_arrays(path, arrays, values)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evolved")
    pomp.evolve("Farmer", rounds=2, settings=EVOLVE, out=folder / "run")
    return folder / "run"


def fill(name, number):
    def change(arrays, values):
        arrays[name][...] = number

    return change


def cut(arrays, values):
    arrays["pending.0.literals"] = arrays["pending.0.literals"][:, :, :-1]


def put(number, *path):
    def change(arrays, values):
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = number

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (cut, r"pending\.0\.literals must be int8 of shape"),
        (fill("pending.0.start", 127), r"pending\.0\.start must be numbers from 0 to"),
        (fill("pending.0.literals", 126), r"pending\.0\.literals must be numbers from -1 to"),
        (fill("0.0.targets", 100), r"0\.0\.targets must be numbers from -1 to"),
        (fill("0.0.programs", 3), r"0\.0\.programs: token ids that are no program"),
        (put(10**9, "starts"), "starts must be a whole number from"),
        (put(10**9, "pending", 0, "starts"), r"pending\[0\]\.starts must be a whole number from"),
        (put(-1, "round"), "round must be a whole number from 0"),
        (put(float("nan"), "seconds"), "seconds must be a number"),
        (put([[0, []]] * 2, "scores"), "no round that was finished"),
    ],
)
def test_an_edited_search_for_machines_is_refused(evolved, tmp_path, change, says):
    folder = shutil.copytree(evolved, tmp_path / "run")
    edit_arrays(folder / "Farmer/seed0/state.safetensors", change)
    with pytest.raises(DataFileError, match=says):
        pomp.evolve(out=folder, rounds=3, resume=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (fill("worlds0.pose", 2**31 - 1), "pose|agent|world"),
        (fill("worlds0.pose", -1), "pose|agent|world"),
        (fill("episodes0.mode", 7), "the last mode of an episode is none of its modes"),
        (fill("episodes0.taken", -5), "macro steps"),
        (put(-1, "update"), "update must be a whole number from 0"),
        (put([[None, 0]] * 3, "kept"), "kept must be a list of 1 to 1 items"),
    ],
)
def test_an_edited_training_is_refused(tmp_path, change, says):
    out = tmp_path / "run"
    pomp.train("StairClimber", preset="paper", modes=MODES, settings=PPO, out=out)
    edit_arrays(out / "ensemble12x12.safetensors", change)
    with pytest.raises(DataFileError, match=says):
        pomp.train(out=out, settings={"ppo.total": 288}, resume=True)


NEGATIVE = np.full((12, 10), -3, np.int8)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda arrays, _: arrays.update(demonstration_length=NEGATIVE), "uint8 of shape"),
        (fill("demonstration_length", 200), "demonstration_length must be numbers from 0 to 19"),
        (fill("demonstration_length", 19), "items, got"),
        (fill("program_length", 0), "program_length must be numbers from 1 to 44"),
        (fill("actions", 5), "actions must be numbers from 0 to 4"),
        (fill("start", 255), "outside its world"),
    ],
)  # fmt: skip
def test_an_edited_dataset_is_refused(tmp_path, change, says):
    path = tmp_path / "data.safetensors"
    save_dataset(make_dataset(DatasetConfig(train=8, validation=2, test=2, seed=5)), path)
    assert len(load_dataset(path)) == 12
    edit_arrays(path, change)
    with pytest.raises(DataFileError, match=says):
        load_dataset(path)

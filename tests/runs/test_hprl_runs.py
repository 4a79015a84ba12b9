"""HPRL as a user runs it: training, resuming, evaluation, its row of a table, bad input."""

import json

import pytest

from commands import call
from pomp.core.errors import ConfigError
from pomp.embedding.config import HPRL_MODEL
from pomp.embedding.model import EmbeddingModel, initialise
from pomp.embedding.weights import save_weights
from pomp.experiments import list_cells, reproduce
from pomp.runs import train

TINY = {
    "ppo.total": 128, "ppo.actors": 4, "ppo.steps": 8, "ppo.minibatch": 16, "validation.every": 2,
    "validation.episodes": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """A file of an embedding of HPRL's that was never trained."""
    model = EmbeddingModel(HPRL_MODEL)
    initialise(model, 0)
    path = tmp_path_factory.mktemp("space") / "weights.safetensors"
    save_weights(path, model, {"note": "untrained"})
    return path


def asked(folder, *more, **changes):
    """The words of a command that trains; `changes` of settings have `__` for a point."""
    named = {**TINY, **{name.replace("__", "."): value for name, value in changes.items()}}
    given = [part for name, value in named.items() for part in ("--set", f"{name}={value}")]
    return ["train", "Seeder", "--method", "hprl", "--out", str(folder), *given, *more]


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory, space):
    folder = tmp_path_factory.mktemp("trained") / "run"
    found = train(
        ["Seeder", "DoorKey"], method="hprl", seeds=[0, 1], out=folder,
        settings={**TINY, "policy.embedding": str(space)},
    )  # fmt: skip
    assert found.is_finished
    return found


def test_a_training_leaves_policies_that_can_be_evaluated(capsys, trained):
    assert [one.setting.task.name for one in trained.learned] == ["Seeder"] * 2 + ["DoorKey"] * 2
    one = trained.learned[0]
    assert one.policy.provenance["steps"] == 128
    assert one.text.startswith("the first episode of its evaluation:\nprogram 1: DEF run m(")
    with pytest.raises(ConfigError, match="no machine"):
        _ = one.machine
    place = trained.path / "Seeder" / "seed0"
    lines = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in lines] == [64, 128]
    status, output, errors = call(capsys, "eval", place / "policy", "--json")
    assert (status, errors) == (0, "")
    assert json.loads(output)["mean"] == one.mean
    assert trained.summary["tasks"]["Seeder"]["published"]["method"] == "HPRL (5)"
    assert "program 1" in trained._repr_html_()
    status, output, _ = call(capsys, "report", trained.path)
    assert status == 0
    assert "Seeder" in output


def test_a_training_cut_anywhere_ends_with_the_same_bytes(trained, tmp_path, space):
    folder, counts = tmp_path / "run", []

    def stop(event):
        counts.append(event.stage)
        return len(counts) in (2, 5, 9, 14, 20)

    given = {"settings": {**TINY, "policy.embedding": str(space)}, "on_event": stop}
    found = train(["Seeder", "DoorKey"], method="hprl", seeds=[0, 1], out=folder, **given)
    for _ in range(20):
        if found.is_finished:
            break
        found = train(out=folder, resume=True, on_event=stop)
    assert found.is_finished
    assert files_of(folder) == files_of(trained.path)
    assert train(out=folder, resume=True).was_finished


def test_a_training_can_be_extended(tmp_path, space, capsys):
    folder = tmp_path / "run"
    assert call(capsys, *asked(folder, policy__embedding=space))[0] == 0
    more = ("train", "--out", folder, "--resume", "--set", "ppo.total=192")
    status, _, errors = call(capsys, *more)
    assert status == 0, errors
    config = json.loads((folder / "config.json").read_text())
    assert config["hprl"]["ppo"]["total"] == 192
    assert config["extended"]


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({}, ("--modes", "modes.txt"), "writes its programs itself; leave out the modes"),
        ({}, ("--learning-rates", "1e-3,1e-4"), "learns at one rate"),
        ({"search__mode__runs": 3}, (), "has no search.mode.runs"),
        (
            {"policy__embedding": "paper"},
            (),
            "needs an embedding of the hprl vocabulary, got leaps",
        ),
        ({"policy__embedding": "hrpl.safetensors"}, (), "does not exist"),
        ({"network__hidden": 3}, (), "network"),
        ({"ppo__minibatch": 4}, (), "whole actors"),
    ],
)
def test_bad_input_is_told_in_one_line_and_leaves_nothing(
    capsys, tmp_path, space, changes, more, message
):
    folder = tmp_path / "run"
    given = {"policy__embedding": space, **changes}
    status, _, errors = call(capsys, *asked(folder, *more, **given))
    assert status == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert not folder.exists()


def test_another_method_does_not_go_on_with_the_folder(capsys, trained):
    before = files_of(trained.path)
    out = ("--out", trained.path, "--resume")
    status, _, errors = call(capsys, "train", "Seeder", "--method", "drl", *out)
    assert status == 2
    assert "begun with the method hprl, not with drl" in errors
    assert files_of(trained.path) == before


def test_a_search_refuses_the_embedding_of_hprl_in_a_line(capsys, tmp_path, space):
    given = ("--method", "cem", "--set", f"embedding={space}", "--out", tmp_path / "search")
    status, _, errors = call(capsys, "search", "Seeder", *given)
    assert status == 2
    assert "search needs an embedding of the leaps vocabulary, got hprl" in errors
    assert errors.count("\n") == 1


def test_evaluation_refuses_what_it_cannot_do(capsys, trained):
    place = trained.path / "Seeder" / "seed0" / "policy"
    for more in (("--exact",), ("--random",), ("--scale", "2"), ("--size", "9x9")):
        status, _, errors = call(capsys, "eval", place, *more)
        assert status == 2
        assert "evaluated as it was trained" in errors


def test_a_policy_is_refused_where_a_machine_is_expected(capsys, trained):
    place = trained.path / "Seeder" / "seed0" / "policy"
    for command in (("explain", place), ("simplify", place), ("play", place, "--print")):
        status, _, errors = call(capsys, *command)
        assert status == 2
        assert "a policy that is no machine, which pomp eval plays" in errors
        assert errors.count("\n") == 1


def test_an_evaluation_is_told_in_words(capsys, trained):
    place = trained.path / "Seeder" / "seed0" / "policy"
    status, output, _ = call(capsys, "eval", place, "--episodes", "4", "--greedy")
    assert status == 0
    assert "Seeder: mean return" in output
    assert "never chose to end" not in output


def test_its_row_of_a_table_is_trained_and_evaluated(tmp_path, space):
    cells = list_cells(
        "table1", methods=["hprl"], tasks=["Seeder"], seeds=[0], budget=0.0001,
        settings={"policy.embedding": str(space), "validation.every": 1, "network.hidden": 16},
    )  # fmt: skip
    assert [cell.stage for cell in cells] == ["learn", "policy"]
    found = reproduce(cells, out=tmp_path / "store")
    assert found.is_finished
    learned, policy = found.results
    cost = learned.values["cost"]
    assert cost["steps"] == cost["candidates"] == 2 * 1024
    assert 0 < cost["executions"] < 2 * 1024  # not all latents are programs
    assert cost["actions"] > 0
    assert learned.values["ended"] == "all steps"
    assert policy.values["cost"] == learned.values["cost"]
    assert len(policy.values["returns"]) == 32
    assert 1 <= len(policy.programs) <= 5
    assert policy.cell.row.published("Seeder")["mean"] > 0
    assert cells[0].settings()["learning"]["policy"]["programs"] == 5

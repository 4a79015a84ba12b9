"""What the API answers, as docs/STUDIO.md says it."""

import json
import time

import numpy as np
import pytest
from unpacking import unpack

from pomp.machine.text import print_machine
from pomp.machine.zoo import load_machine
from pomp.studio import space_map
from pomp.studio.pages import STATIC
from pomp.tasks.catalog import TASKS

MODE = "mode walk: DEF run m( {} m)\n  else -> stop"
PROGRAM = "DEF run m( WHILE c( frontIsClear c) w( move w) m)"


def write_run(root, name, seed, scores):
    """A folder as `pomp evolve` leaves it: a config, metrics and a machine."""
    place = root / name / "Farmer" / f"seed{seed}"
    place.mkdir(parents=True)
    config = {"kind": "evolve", "tasks": {"Farmer": {}}, "seeds": [seed], "rounds": 3}
    (root / name / "config.json").write_text(json.dumps(config))
    records = [{"evaluated": 100 * (n + 1), "score": one} for n, one in enumerate(scores)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    load_machine("zoo:Farmer/text").save(place / "machine")


def test_tasks_and_machines_are_listed(client):
    tasks = client.get("/api/tasks").json()["tasks"]
    assert [task["name"] for task in tasks] == [task.name for task in TASKS]
    machines = client.get("/api/machines").json()["machines"]
    assert {one["task"] for one in machines} == {task.name for task in TASKS}
    assert [one["task"] for one in machines if one["is_best"]] == [task.name for task in TASKS]


def test_a_machine_has_lines_tokens_loops_and_rules(client):
    told = client.get("/api/machine", params={"machine": "zoo:Farmer/text"}).json()
    assert told["text"] == print_machine(load_machine("zoo:Farmer/text"))
    assert len(told["lists"]) == len(told["modes"]) + 1
    for mode in told["modes"]:
        tokens = mode["program"].split()
        assert len(mode["line_of"]) == len(tokens)
        for place, line in enumerate(mode["line_of"]):
            assert tokens[place] in mode["lines"][line]
        for loop in mode["loops"]:
            assert tokens[loop["first"]] == loop["kind"]
            assert tokens[loop["last"]] == {"WHILE": "w)", "REPEAT": "r)"}[loop["kind"]]


@pytest.mark.parametrize(
    ("text", "kind", "wrong", "line"),
    [
        (PROGRAM, "program", None, None),
        ("# a comment with DEF\nDEF run m( move m)", "program", None, None),
        ("DEF run m(\n  move c( m)", "program", "c(", 2),
        ("# one\nDEF run m( # two\n jump m)", "program", "jump", 3),
        ("DEF run m( move", "program", "", 1),
        (
            "machine Maze\nstart walk\nmode walk: DEF run m( mov m)\n  else -> stop",
            "machine",
            "mov",
            3,
        ),
        (
            "machine Maze\nstart go\nmode walk: DEF run m( move m)\n  else -> stop",
            "machine",
            "go",
            2,
        ),
        ("nonsense", "machine", "nonsense", 1),
        ("", "machine", "", 1),
    ],
)
def test_a_text_is_checked_by_the_parser_with_its_place(client, text, kind, wrong, line):
    told = client.post("/api/check", json={"text": text, "task": "Maze"}).json()
    assert told["kind"] == kind
    if wrong is None:
        assert (told["error"], told["place"]) == (None, None)
        assert told["machine"]["modes"][0]["program"].startswith("DEF run m(")
        return
    place = told["place"]
    assert text[place["from"] : place["to"]] == wrong
    assert place["line"] == line
    assert text.split("\n")[line - 1][place["column"] - 1 :].startswith(wrong)


def test_a_program_runs_once_in_any_task(client):
    for task in ("Harvester", "Maze"):
        told = client.post("/api/episode", json={"text": PROGRAM, "task": task}).json()
        assert (told["task"], told["modes"]) == (task, 1)
    lonely = client.post("/api/episode", json={"text": PROGRAM})
    assert (lonely.status_code, lonely.json()["error"]) == (
        400,
        "a program acts in a task: name one",
    )


def test_two_machines_can_be_compared_on_one_start(client):
    asked = {"task": "Harvester", "seed": 5}
    first, second = (
        client.get("/api/episode", params={**asked, "machine": f"zoo:{task}/text"}).json()
        for task in ("Harvester", "CleanHouse")
    )
    assert first["start"] == second["start"]
    assert first["world"] == second["world"]


def test_the_size_is_the_worlds(client):
    asked = {"machine": "zoo:Harvester/text", "size": "10x12"}
    told = client.get("/api/episode", params=asked).json()
    assert told["size"] == told["world"]["size"] == [10, 12]


def test_pictures_are_drawn_by_the_renderer(client):
    asked = {"machine": "zoo:Harvester/text"}
    starts = {"png": b"\x89PNG", "svg": b"<svg", "gif": b"GIF8"}
    for form, start in starts.items():
        answer = client.post("/api/export", json={**asked, "format": form, "every": 100})
        assert answer.content.startswith(start)


def test_runs_are_grouped_by_everything_but_the_seed(client, tmp_path):
    for seed, scores in enumerate(([0.1, 0.3], [0.2, 0.5])):
        write_run(tmp_path, f"run{seed}", seed, scores)
    (group,) = client.get("/api/runs").json()["groups"]
    assert [run["seeds"] for run in group["runs"]] == [[0], [1]]
    name = group["runs"][1]["machines"][0]["name"]
    assert client.get("/api/machine", params={"machine": name}).json()["task"] == "Farmer"
    asked = {"run": [run["path"] for run in group["runs"]]}
    told = client.get("/api/charts", params=asked).json()
    (band,) = told["charts"][0]["bands"]
    np.testing.assert_allclose(band["mean"], [0.15, 0.4])
    np.testing.assert_allclose(np.subtract(band["high"], band["mean"]), [0.05, 0.1])
    since = {**asked, "since": told["changed"]}
    assert client.get("/api/charts", params=since).status_code == 304
    time.sleep(0.01)
    with (tmp_path / "run0/Farmer/seed0/metrics.jsonl").open("a") as file:
        file.write('{"evaluated": 300, "score": 0.9}\n')
    grown = client.get("/api/charts", params=since).json()["charts"][0]["curves"][0]
    assert grown["returns"] == [0.1, 0.3, 0.9]


def test_a_run_that_has_just_begun_has_no_charts(client, tmp_path):
    write_run(tmp_path, "run", 0, [])
    assert client.get("/api/charts", params={"run": "run"}).json()["charts"] == []


def test_what_is_no_number_yet_is_left_out(client, tmp_path):
    write_run(tmp_path, "run", 0, [float("-inf"), 0.5])
    config = json.loads((tmp_path / "run/config.json").read_text())
    (tmp_path / "run/config.json").write_text(json.dumps(config | {"minutes": float("inf")}))
    told = client.get("/api/charts", params={"run": "run"}).json()
    assert told["charts"][0]["curves"][0]["returns"] == [0.5]
    assert "Infinity" not in client.get("/api/runs").text


def test_files_that_cannot_be_read_are_not_there(client, tmp_path, monkeypatch):
    write_run(tmp_path, "run", 0, [0.5])

    def gone(run):
        raise FileNotFoundError

    monkeypatch.setattr("pomp.studio.run_lists._changed", gone)
    assert client.get("/api/charts", params={"run": "run"}).status_code == 404


def test_a_point_of_a_map_is_a_program_that_does_something(client, monkeypatch):
    monkeypatch.setattr(space_map, "_PROGRAMS", 20)
    monkeypatch.setattr(space_map, "_TASKS", ("Harvester",))
    space_map.open_plane.cache_clear()
    assert {"name": "best"} in client.get("/api/embeddings").json()["embeddings"]
    told = client.get("/api/embedding").json()
    points = unpack(told["points"])
    assert len(points) == len(told["programs"]) == len(unpack(told["kind"])) == 20
    x, y = points[0].tolist()
    found = client.get("/api/embedding/at", params={"x": x, "y": y}).json()
    assert found["program"].startswith("DEF run m(")
    assert found["is_valid"] == bool(found["behaviour"])
    space_map.open_plane.cache_clear()


def test_the_page_is_served_with_its_files(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.text == (STATIC / "index.html").read_text("utf-8")
    assert client.get("/static/player.js").status_code == 200


def test_an_episode_is_asked_for_once(client, monkeypatch):
    asked = {"machine": "zoo:Harvester/text", "seed": 11}
    first = client.get("/api/episode", params=asked)
    monkeypatch.setattr("pomp.studio.answers.record_episode", None)
    assert client.get("/api/episode", params=asked).content == first.content
    plain = client.get("/api/episode", params=asked, headers={"accept-encoding": "identity"})
    assert plain.json() == first.json()

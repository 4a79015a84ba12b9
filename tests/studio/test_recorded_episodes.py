"""What the studio shows is what `pomp eval` plays, to the last digit."""

import json
from dataclasses import replace

import numpy as np
import pytest
from unpacking import frames_of, unpack

from commands import call
from pomp.core.errors import ConfigError
from pomp.karel.world import Map
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList, NetworkTransition, Rule
from pomp.machine.zoo import load_machine, zoo_tasks
from pomp.play.story import Story
from pomp.studio import recording
from pomp.studio.packing import episode_data
from pomp.studio.recording import record_episode

SWEEP = "DEF run m( pickMarker WHILE c( frontIsClear c) w( move pickMarker w) m)"
LOOPS = "DEF run m( REPEAT R=3 r( turnLeft REPEAT R=2 r( move r) r) m)"
NESTED = (
    "DEF run m( WHILE c( markersPresent c) w( WHILE c( frontIsClear c) w( move w) turnLeft w) m)"
)
IDLE = "DEF run m( IF c( not c( frontIsClear c) c) i( IF c( frontIsClear c) i( move i) i) m)"


def machine(*modes, rules=None, **settings):
    chain = [(Rule(n + 1),) for n in range(len(modes) - 1)]
    rules = rules or DecisionList((Rule(0),), (*chain, (Rule(None),)))
    return ProgramMachine("Harvester", modes, rules, **settings)


@pytest.mark.parametrize("task", zoo_tasks())
def test_the_numbers_are_those_of_an_evaluation(task):
    acting = load_machine(f"zoo:{task}/text")
    episode, found = record_episode(acting, seed=7), evaluate(acting, episodes=1, seed=7)
    data = episode_data(episode)
    assert data["return"] == found.returns[0]
    assert data["actions"] == found.actions[0]
    assert data["modes"] == found.programs[0]
    assert unpack(data["moments"]["return"])[-1] == found.returns[0]
    assert unpack(data["steps"]["mode"]).tolist() == found.paths[0].tolist()


@pytest.mark.parametrize("task", zoo_tasks())
def test_the_page_gets_what_the_command_prints(client, capsys, task):
    asked = {"machine": f"zoo:{task}/text", "seed": 7}
    told = client.get("/api/episode", params=asked).json()
    given = (f"zoo:{task}/text", "--episodes", "1", "--seed", "7", "--json")
    status, printed, _ = call(capsys, "eval", *given)
    assert status == 0
    printed = json.loads(printed)
    assert (told["return"], told["actions"]) == (printed["mean"], printed["actions"])
    assert told["modes"] == printed["programs"]


@pytest.mark.parametrize("task", ["Harvester", "Farmer", "Snake"])
def test_every_moment_is_that_of_the_story(task):
    acting = load_machine(f"zoo:{task}/text")
    data = episode_data(record_episode(acting, seed=3))
    story = list(Story(acting, acting.configure(), seed=3))
    assert data["frames"] == len(story) - 1
    worth = unpack(data["moments"]["return"])
    lines = [mode["line_of"] for mode in data["machine"]["modes"]]
    assert worth.tolist() == [moment.worth for moment in story]
    step = np.searchsorted(unpack(data["steps"]["first"]), np.arange(data["frames"]), side="right")
    mode = unpack(data["steps"]["mode"])[step - 1]
    token = unpack(data["moments"]["token"])
    for frame, cells in enumerate(frames_of(data)):
        pose = int(unpack(data["moments"]["pose"])[frame])
        shown = Map.from_cells(tuple(data["size"]), cells, pose)
        assert shown.to_text().splitlines() == list(story[frame].world)
        if story[frame].line is not None:
            assert lines[mode[frame - 1]][token[frame - 1]] == story[frame].line


@pytest.mark.parametrize(
    ("variant", "options"), [("hprl", {}), ("leaps", {}), ("leaps", {"dense": "on"})]
)
def test_returns_are_exact_however_they_are_computed(variant, options):
    acting = replace(load_machine("zoo:StairClimber/text"), variant=variant, options=options)
    story = Story(acting, acting.configure(), seed=1)
    told = record_episode(acting, seed=1).moments.worth
    assert told.tolist() == [moment.worth for moment in story][1:]


def test_keyframes_are_the_frames_they_stand_for():
    data = episode_data(record_episode(load_machine("zoo:Farmer/text"), seed=0))
    assert data["frames"] > data["every"]
    np.testing.assert_array_equal(unpack(data["cells"]["keys"]), frames_of(data)[:: data["every"]])


def test_return_is_progress_less_penalties_and_costs():
    data = episode_data(record_episode(load_machine("zoo:Farmer/text"), seed=0))
    earned = unpack(data["events"]["amount"]).sum()
    assert earned - data["cost"] * data["actions"] == pytest.approx(data["return"], abs=1e-12)


def test_the_rule_that_fired_leads_where_the_machine_went():
    for task in ("Farmer", "Seesaw"):
        data = episode_data(record_episode(load_machine(f"zoo:{task}/text"), seed=1))
        mode, rule = unpack(data["steps"]["mode"]), unpack(data["steps"]["rule"])
        last = np.concatenate([[-1], mode[:-1].astype(int)])
        lists = data["machine"]["lists"]
        assert [lists[b + 1][r]["to"] for b, r in zip(last, rule, strict=True)] == mode.tolist()


def test_rounds_of_counted_loops():
    data = episode_data(record_episode(machine(LOOPS)))
    rounds = unpack(data["moments"]["rounds"])[:9]
    assert rounds[:, 0].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert rounds[:, 1].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]


def test_rounds_of_open_ended_loops():
    data = episode_data(record_episode(machine(SWEEP)))
    rounds = unpack(data["moments"]["rounds"])[:11, 0]
    assert rounds.tolist() == [0, *(n for n in range(1, 6) for _ in ("move", "pickMarker"))]


def test_an_inner_loop_begins_anew_with_each_round_of_the_outer():
    data = episode_data(record_episode(machine(NESTED)))
    rows = unpack(data["moments"]["rounds"])[:18].tolist()
    side = [1, 2, 3, 4, 5, 0]  # moves to the wall, and a turn
    assert rows == [[outer, inner] for outer in (1, 2, 3) for inner in side]


def test_a_mode_that_does_not_act_has_a_moment():
    data = episode_data(record_episode(machine(IDLE, "DEF run m( turnLeft m)")))
    assert unpack(data["moments"]["action"]).tolist() == [255, 1, 255]
    said = [data["words"][place] for place in unpack(data["moments"]["say"])]
    assert said == ["The mode ends without an action.", "Turns left.", "The episode ends."]


def test_words_say_why_and_what_was_in_vain():
    rules = DecisionList((Rule(0),), ((Rule(None, ("not frontIsClear",)), Rule(0)),))
    data = episode_data(record_episode(machine("DEF run m( move m)", rules=rules), seed=0))
    why = [data["words"][place] for place in unpack(data["steps"]["say"])]
    assert why[0] == "Begins with `mode 1`."
    assert why[-1] == "After `mode 1`: stops, since the front is blocked."


def test_a_network_says_how_likely_its_choices_were():
    acting = load_machine("zoo:Harvester/network")
    assert isinstance(acting.transition, NetworkTransition)
    episode, found = record_episode(acting, seed=7), evaluate(acting, episodes=1, seed=7)
    assert (episode.worth, episode.actions) == (found.returns[0], found.actions[0])
    assert episode.probs.shape == (len(episode.mode), len(acting.modes) + 1)
    np.testing.assert_allclose(episode.probs.sum(axis=1), 1, atol=1e-5)


def test_an_edited_start_is_where_the_episode_begins(client):
    asked = {"text": "DEF run m( move m)", "task": "Harvester"}
    world = client.get("/api/world", params={"task": "Harvester"}).json()["world"]
    free = world["cells"].copy()
    free[9] = 16
    told = client.post("/api/episode", json={**asked, "world": {**world, "cells": free}}).json()
    assert told["world"]["cells"][9] & 16
    broken = client.post("/api/episode", json={**asked, "world": {**world, "cells": [0] * 64}})
    assert (broken.status_code, "outer ring" in broken.json()["error"]) == (400, True)


def test_an_episode_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(recording, "MOST_MOMENTS", 50)
    with pytest.raises(ConfigError, match="over 50 actions: too long to be shown"):
        record_episode(load_machine("zoo:Harvester/text"))


def test_greedy_and_scale_reach_the_episode():
    acting = load_machine("zoo:Farmer/text")
    assert record_episode(acting, scale=2).worth == evaluate(acting, episodes=1, scale=2).returns[0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"machine": 3}, "that of a machine, got 3"),
        ({"machine": "zoo:Harvester/text", "seed": -1}, "not negative, got -1"),
        ({"machine": "zoo:Harvester/text", "scale": 2}, "has scale 1"),
        ({"machine": "zoo:Harvester/text", "start": "map"}, "worlds begin from maps"),
    ],
)
def test_what_is_no_episode_is_refused(given, reason):
    with pytest.raises(ConfigError, match=reason):
        record_episode(**given)

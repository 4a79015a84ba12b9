"""How long a program may run: call budgets, action caps, REPEAT R=0, lists of programs."""

import numpy as np
import pytest
from playing import agent, bare_world, play, start, task

from pomp.core import ConfigError
from pomp.engine import record, rollout

TRUE = "c( noMarkersPresent c)"  # in a room without markers
FALSE = "c( markersPresent c)"


def program(body):
    return f"DEF run m( {body} m)"


def run(body, cap="calls220"):
    """Actions, final counter and whether it ran to its end, in an empty room."""
    setting, worlds = bare_world()
    result = rollout(setting, [program(body)], worlds, cap=cap, threads=1)
    return int(result.actions[0, 0]), int(result.calls[0, 0]), bool(result.completed[0, 0])


def turns(count):
    return " ".join(["turnLeft"] * count)


# ---------------------------------------------------------------- T1: the table


@pytest.mark.parametrize(
    ("body", "under_220", "under_500"),
    [
        (f"WHILE {TRUE} w( move w)", (217, 221, False), (497, 501, False)),
        (f"WHILE {TRUE} w( turnLeft move w)", (108, 221, False), (248, 501, False)),
        (
            f"WHILE {TRUE} w( turnLeft move turnRight move w)",
            (85, 221, False),
            (197, 501, False),
        ),
        ("REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r)", (195, 221, False), (361, 402, True)),
        ("REPEAT R=19 r( turnLeft r)", (19, 22, True), (19, 22, True)),
        ("REPEAT R=0 r( move turnLeft r)", (0, 3, True), (0, 3, True)),
        (f"WHILE {TRUE} w( IF {FALSE} i( move i) w)", (0, 221, False), (0, 501, False)),
        ("turnLeft turnLeft turnLeft", (3, 8, True), (3, 8, True)),
        (turns(300), (0, 221, False), (0, 501, False)),
    ],
    ids=[
        "one-action loop",
        "two-action loop",
        "four-action loop",
        "nested repeat",
        "repeat",
        "repeat zero",
        "idle loop",
        "three actions",
        "300 actions",
    ],
)
def test_call_budget_table(body, under_220, under_500):
    assert run(body, "calls220") == under_220
    assert run(body, "calls500") == under_500


@pytest.mark.parametrize(
    ("length", "actions"), [(73, 73), (74, 73), (75, 71), (100, 21), (110, 1), (111, 0), (300, 0)]
)
def test_a_long_line_of_actions_pays_its_nesting_before_the_first_action(length, actions):
    assert run(turns(length)) == (actions, min(3 * length - 1, 221), length <= 73)


@pytest.mark.parametrize("length", [1, 2, 3, 10, 73])
def test_a_line_of_k_actions_costs_3k_minus_1_calls(length):
    assert run(turns(length)) == (length, 3 * length - 1, True)


@pytest.mark.parametrize(("length", "actions"), [(167, 167), (168, 165), (250, 1), (251, 0)])
def test_a_line_of_167_actions_just_fits_into_500_calls(length, actions):
    assert run(turns(length), "calls500") == (actions, min(3 * length - 1, 501), length <= 167)


@pytest.mark.parametrize(("length", "actions"), [(10, 73), (30, 60)])
def test_a_repeated_line_is_cut_where_the_budget_ends(length, actions):
    assert run(f"REPEAT R=19 r( {turns(length)} r)")[0] == actions


def test_no_program_acts_more_than_the_budget_less_three():
    assert run(f"WHILE {TRUE} w( turnLeft w)", "calls1000")[0] == 997


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("turnLeft", 2),
        (f"IF {TRUE} i( turnLeft i)", 4),
        (f"IF {FALSE} i( turnLeft i)", 3),
        (f"IF c( not {FALSE} c) i( turnLeft i)", 4),
        (f"IF c( not c( not {TRUE} c) c) i( turnLeft i)", 4),
        (f"IFELSE {TRUE} i( turnLeft i) ELSE e( turnLeft turnLeft e)", 4),
        (f"IFELSE {FALSE} i( turnLeft i) ELSE e( turnLeft turnLeft e)", 7),
        (f"WHILE {FALSE} w( turnLeft w)", 3),
        (f"WHILE {TRUE} w( putMarker w)", 4),
        ("REPEAT R=1 r( turnLeft r)", 4),
        ("REPEAT R=3 r( turnLeft turnLeft r)", 15),
        ("REPEAT R=2 r( REPEAT R=0 r( move r) r)", 7),
        (f"turnLeft IF {TRUE} i( turnLeft i)", 7),
    ],
)
def test_every_statement_costs_one_call_and_a_branch_or_loop_one_more(body, calls):
    assert run(body)[1:] == (calls, True)


@pytest.mark.parametrize("limit", range(1, 30))
def test_a_run_that_is_cut_ends_one_call_above_the_limit(limit):
    body = f"turnLeft IF {TRUE} i( turnLeft move i) WHILE {TRUE} w( move REPEAT R=2 r( move r) w)"
    assert run(body, f"calls{limit}")[1:] == (limit + 1, False)


def test_an_action_runs_at_the_limit_and_not_above_it():
    assert run("turnLeft", "calls2") == (1, 2, True)
    assert run("turnLeft", "calls1") == (0, 2, False)


def test_an_aborted_program_leaves_the_world_as_it_was():
    setting, worlds = bare_world()
    result = rollout(
        setting,
        [program(f"move move turnLeft {turns(70)}")],
        worlds,
        cap="calls150",
        keep_worlds=True,
    )
    assert result.actions[0, 0] == 5  # 1 + 2 * 72 calls are gone before the first action
    assert agent(result.worlds) == (6, 3, 2)


# ---------------------------------------------------------------- REPEAT R=0


def _up_to_219_calls(last):
    """A branch with 72 turns, which has used 219 calls when its last statement is reached."""
    return f"IF {TRUE} i( {turns(72)} {last} i)"


def test_repeat_zero_succeeds_even_where_its_own_call_exceeds_the_limit():
    assert run(_up_to_219_calls("REPEAT R=0 r( move r)")) == (72, 221, True)


def test_repeat_one_fails_where_its_own_call_exceeds_the_limit():
    assert run(_up_to_219_calls("REPEAT R=1 r( move r)")) == (72, 221, False)


@pytest.mark.parametrize(
    "last", [f"IF {FALSE} i( move i)", f"WHILE {FALSE} w( move w)"], ids=["if", "while"]
)
def test_a_condition_is_not_tested_above_the_limit(last):
    assert run(_up_to_219_calls(last)) == (72, 221, False)


def test_nothing_follows_a_repeat_zero_that_exceeded_the_limit():
    # One pair more (2 calls) and two turns less: REPEAT R=0 is entered with 219 calls again.
    body = f"IF {TRUE} i( {turns(70)} IF {FALSE} i( move i) REPEAT R=0 r( move r) turnLeft i)"
    calls_at_repeat = 1 + 2 + 2 * 72 + 70 + 2
    assert calls_at_repeat == 219
    assert run(body) == (70, 221, False)


def test_a_repeat_zero_body_is_never_charged():
    assert run(f"REPEAT R=0 r( {turns(300)} r)") == (0, 3, True)


def test_a_repeat_zero_in_a_loop_only_burns_calls():
    assert run(f"WHILE {TRUE} w( REPEAT R=0 r( move r) w)") == (0, 221, False)


# ---------------------------------------------------------------- action caps


@pytest.mark.parametrize("limit", [1, 2, 7, 200])
def test_an_action_cap_stops_after_so_many_actions(limit):
    actions, _, completed = run(f"WHILE {TRUE} w( turnLeft move w)", f"actions{limit}")
    assert actions == limit
    assert not completed


def test_an_action_cap_does_not_count_calls():
    assert run(turns(199), "actions200")[0] == 199
    assert run("REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r)", "actions1000")[::2] == (361, True)


def test_under_an_action_cap_a_program_completes_below_it():
    assert run(turns(3), "actions200")[::2] == (3, True)


def test_under_an_action_cap_an_idle_while_round_stops_the_program():
    body = f"turnLeft WHILE {TRUE} w( IF {FALSE} i( move i) w) move move"
    actions, _, completed = run(body, "actions200")
    assert actions == 1
    assert not completed


def test_under_an_action_cap_an_idle_while_stops_all_loops_around_it():
    body = f"REPEAT R=19 r( turnLeft WHILE {TRUE} w( REPEAT R=0 r( move r) w) r)"
    assert run(body, "actions200")[0] == 1


def test_under_an_action_cap_a_while_that_acted_and_then_idles_stops():
    setting, worlds = bare_world("#####\n#e..#\n#####")
    body = "WHILE c( frontIsClear c) w( IF c( markersPresent c) i( pickMarker i) w) move"
    result = rollout(setting, [program(body)], worlds, cap="actions200")
    assert result.actions[0, 0] == 1


def test_under_an_action_cap_idle_repeat_rounds_are_free():
    body = f"REPEAT R=19 r( IF {FALSE} i( move i) r) turnLeft"
    assert run(body, "actions200")[::2] == (1, True)


def test_under_an_action_cap_a_repeat_goes_on_after_it_idled():
    setting, worlds = bare_world("#####\n#e..#\n#####")
    body = "REPEAT R=19 r( IF c( markersPresent c) i( pickMarker i) r) move move"
    result = rollout(setting, [program(body)], worlds, cap="actions200", keep_worlds=True)
    assert result.actions[0, 0] == 3
    assert agent(result.worlds) == (1, 3, 1)


@pytest.mark.parametrize(
    ("inner", "text", "actions"),
    [
        (f"IF {FALSE} i( move i)", "#####\n#>..#\n#####", 1),
        ("REPEAT R=0 r( move r)", "#####\n#>..#\n#####", 1),
        ("IF c( markersPresent c) i( pickMarker i)", "#####\n#e..#\n#####", 2),
        ("turnLeft", "#####\n#>..#\n#####", 200),
    ],
    ids=["false branch", "repeat zero", "acts once", "acts always"],
)
def test_under_an_action_cap_a_hundred_nested_repeats_return_at_once(inner, text, actions):
    setting, worlds = bare_world(text)
    deep = program("REPEAT R=19 r( " * 100 + inner + " r)" * 100 + " turnRight")
    result = rollout(setting, [deep], worlds, cap="actions200", threads=1)  # 19**100 rounds: never
    assert result.actions[0, 0] == actions


def test_under_a_call_cap_a_hundred_nested_repeats_run_out_of_calls():
    setting, worlds = bare_world()
    deep = program("REPEAT R=19 r( " * 100 + f"IF {FALSE} i( move i)" + " r)" * 100)
    result = rollout(setting, [deep], worlds, cap="calls220")
    assert (result.actions[0, 0], result.calls[0, 0]) == (0, 221)


def test_a_large_call_cap_returns_although_the_program_idles():
    assert run(f"WHILE {TRUE} w( IF {FALSE} i( move i) w)", "calls1000000")[0] == 0


@pytest.mark.parametrize(
    "text", ["", "calls", "220", "steps200", "calls-1", "actions 0.5", "calls0x"]
)
def test_an_unknown_cap_is_refused(text):
    setting, worlds = bare_world()
    with pytest.raises(ConfigError):
        rollout(setting, [program("move")], worlds, cap=text)


# ---------------------------------------------------------------- lists of programs


def test_every_program_of_a_list_has_a_fresh_budget():
    setting, worlds = bare_world()
    endless = program(f"WHILE {TRUE} w( turnLeft w)")
    result = rollout(setting, [endless], worlds, lists=[[0, 0, 0]])
    assert result.actions[0, 0] == 3 * 217
    assert result.calls[0, 0] == 3 * 221
    assert not result.completed[0, 0]


def test_every_program_of_a_list_has_a_fresh_action_cap():
    setting, worlds = bare_world()
    endless = program(f"WHILE {TRUE} w( turnLeft w)")
    result = rollout(setting, [endless], worlds, lists=[[0, 0]], cap="actions200")
    assert result.actions[0, 0] == 400


def test_the_next_program_of_a_list_goes_on_where_the_last_one_stopped():
    setting, worlds = bare_world()
    parts = [program("move move"), program("turnLeft move")]
    result = rollout(setting, parts, worlds, lists=[[0, 1, 0], [1, 0, -1]], keep_worlds=True)
    assert (result.worlds.row.tolist(), result.worlds.col.tolist()) == ([3, 3], [3, 1])
    assert result.actions[:, 0].tolist() == [6, 4]
    assert result.completed.all()


@pytest.mark.parametrize("number", [1, -2, 2**32], ids=["too large", "negative", "very large"])
def test_a_list_with_a_number_that_no_program_has_is_refused(number):
    setting, worlds = bare_world()
    with pytest.raises(ConfigError):
        rollout(setting, [program("move")], worlds, lists=np.array([[number]]))


def test_an_aborted_program_does_not_keep_the_next_one_from_running():
    setting, worlds = bare_world()
    parts = [program(turns(300)), program("move")]
    result = rollout(setting, parts, worlds, lists=[[0, 1]], keep_worlds=True)
    assert result.actions[0, 0] == 1
    assert result.calls[0, 0] == 221 + 2
    assert not result.completed[0, 0]
    assert agent(result.worlds) == (6, 2, 1)


def test_a_list_returns_the_sum_over_its_programs():
    setting = task("Seeder")
    worlds = start(setting)
    result = rollout(setting, [program("putMarker move")], worlds, lists=[[0, 0, 0]])
    assert result.returns[0, 0] == pytest.approx(3 / 36, abs=1e-9)


def test_done_does_not_interrupt_a_program():
    setting = task("Seeder")
    worlds = start(setting)
    result = rollout(
        setting, [program("putMarker putMarker move move putMarker")], worlds, keep_worlds=True
    )
    assert result.worlds.done[0]
    assert result.actions[0, 0] == 5
    assert agent(result.worlds)[:2] == (6, 3)
    assert result.returns[0, 0] == pytest.approx(0.0, abs=1e-9)  # nothing is paid after done


def test_a_rollout_leaves_its_worlds_untouched():
    setting, worlds = bare_world()
    before = worlds.cells.tobytes(), worlds.pose.tobytes(), worlds.memory.tobytes()
    rollout(setting, [program("putMarker move")], worlds)
    assert (worlds.cells.tobytes(), worlds.pose.tobytes(), worlds.memory.tobytes()) == before


def test_a_recorded_run_has_the_actions_and_calls_of_a_rollout():
    setting, worlds = bare_world()
    trace = record(setting, [program(f"WHILE {TRUE} w( turnLeft move w)")], worlds)
    assert trace.arrays.length[0] == 108
    assert trace.calls[0, 0] == 221
    assert trace.arrays.action[0, :4].tolist() == [1, 0, 1, 0]


def test_actions_by_hand_and_by_program_are_worth_the_same():
    setting = task("Harvester", "hprl")
    by_hand = play(setting, start(setting), "KMKML")
    body = "pickMarker move pickMarker move turnLeft"
    result = rollout(setting, [program(body)], start(setting))
    assert result.returns[0, 0] == pytest.approx(sum(by_hand), abs=1e-9)

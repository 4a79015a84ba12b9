"""The conformance vectors of the task specification, T2 to T24, and scripted oracles.

Long on purpose: the vectors in their numbered order, as the specification lists them.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from playing import (
    EAST,
    MARKERS,
    SOUTH,
    WEST,
    ZERO_FLAG,
    agent,
    cells_with,
    cycle,
    play,
    room,
    serpentine,
    serpentine_back,
    start,
    task,
    towards,
    walk,
    walls,
)

from pomp.engine import act_on, draw_starts, enumerate_starts, record, rollout

COST = 0.0001
PER_CELL = 1 / 36


def near(numbers):
    return pytest.approx(numbers, abs=1e-9)


# ---------------------------------------------------------------- KAREL


def test_t2_harvester_pays_for_a_pick_at_the_next_action():
    setting = task("Harvester", "hprl")
    assert play(setting, start(setting), "KLL") == near([0, PER_CELL, 0])


FOUR_CORNER_AT_A_CORNER = "\n".join(["############", *["#..........#"] * 9])
FOUR_CORNER_AT_A_CORNER += "\n#>.........#\n############"


def test_t12_four_corner_hprl_keeps_what_was_earned_before_a_wrong_marker():
    setting = task("FourCorner", "hprl")
    worlds = start(setting, FOUR_CORNER_AT_A_CORNER)
    rewards = play(setting, worlds, "UUKUM")
    assert not worlds.done[0]
    rewards += play(setting, worlds, "U")
    assert rewards == near([0.25, 0, -0.25, 0.25, 0, 0])
    assert worlds.done[0]


def test_t13_four_corner_leaps_pays_the_level_and_counts_a_double_marker_as_wrong():
    setting = task("FourCorner", "leaps")
    worlds = start(setting, FOUR_CORNER_AT_A_CORNER)
    assert play(setting, worlds, "UUUL") == near([0.25, 0, 0, 0])


TOP_OFF_5_6 = "\n".join(["############", *["#..........#"] * 9])
TOP_OFF_5_6 += "\n#>...mm....#\n############"


def test_t14_top_off_pays_two_elevenths_for_the_first_and_for_the_last_move():
    setting = task("TopOff", "hprl")
    worlds = start(setting, TOP_OFF_5_6)
    rewards = play(setting, worlds, "MMMMUMUMMM")
    assert not worlds.done[0]
    rewards += play(setting, worlds, "M")
    eleventh = 1 / 11
    assert rewards == near(
        [elevenths * eleventh for elevenths in [2, 1, 1, 0, 1, 0, 1, 1, 1, 1, 2]]
    )
    assert sum(rewards) == near(1.0)
    assert worlds.done[0]


NEAR_THE_TOP = """
############
#.........m#
#........>##
#........###
#.......##.#
#......##..#
#.....##...#
#....##....#
#...##.....#
#..##......#
#.##.......#
############"""


@pytest.mark.parametrize("variant", ["hprl", "leaps"])
def test_t15_sparse_stairs_pay_nothing_on_the_way(variant):
    setting = task("StairClimber", variant)
    assert play(setting, start(setting, NEAR_THE_TOP), "LMMM") == near([0, 0, 0, 0])


def test_t16_dense_stairs_pay_for_the_share_of_the_distance():
    setting = task("StairClimber", "hprl", dense="on")
    worlds = start(setting, NEAR_THE_TOP)
    assert play(setting, worlds, "LMMM") == near([0, 0.5, 0, -0.5])
    assert agent(worlds) == (2, 9, SOUTH)


# ---------------------------------------------------------------- KAREL-HARD


def test_t3_one_stroke_pays_for_the_start_cell_at_the_first_action():
    setting = task("OneStroke")
    assert play(setting, start(setting), "LLLL") == near([PER_CELL, 0, 0, 0])


def test_t4_one_stroke_ends_with_a_collision_and_leaves_walls_behind():
    setting = task("OneStroke")
    worlds = start(setting, room(2, 1))
    rewards = play(setting, worlds, "MMMMM")
    assert not worlds.done[0]
    rewards += play(setting, worlds, "M")
    assert worlds.done[0]
    rewards += play(setting, worlds, "MM")
    assert rewards == near([PER_CELL] * 6 + [0, 0])
    assert agent(worlds) == (2, 6, WEST)
    inner_walls = {(r, c) for r, c in walls(worlds) if 0 < r < 7 and 0 < c < 7}
    assert inner_walls == {(2, col) for col in range(1, 6)}


def test_t5_seeder_takes_the_pay_back_for_a_double_marker_and_ends():
    setting = task("Seeder")
    worlds = start(setting)
    rewards = play(setting, worlds, "UMU")
    assert not worlds.done[0]
    rewards += play(setting, worlds, "U")
    assert rewards == near([PER_CELL, 0, PER_CELL, -PER_CELL])
    assert worlds.done[0]


DOOR_KEY = """
########
#>..#..#
#...#..#
#...#..#
#..m#..#
#...#m.#
#...#..#
########"""
DOORS = {(2, 4), (3, 4)}


def test_t6_door_key_fines_one_stray_cell():
    setting = task("DoorKey")
    worlds = start(setting, DOOR_KEY)
    assert play(setting, worlds, "UUKK") == near([-0.0001, 0, 0, 0.0001])


def test_t7_door_key_pays_half_while_the_key_is_taken():
    setting = task("DoorKey")
    worlds = start(setting, DOOR_KEY)
    play(setting, worlds, walk(worlds, (4, 3)))
    assert walls(worlds) >= DOORS
    rewards = play(setting, worlds, "K")
    assert not walls(worlds) & DOORS
    rewards += play(setting, worlds, "KUK")
    assert rewards == near([0.5, 0, -0.5, 0.5])
    assert not walls(worlds) & DOORS


def test_t8_door_key_ends_with_two_markers_on_the_target():
    setting = task("DoorKey")
    worlds = start(setting, DOOR_KEY)
    rewards = play(setting, worlds, walk(worlds, (4, 3)) + "K")
    rewards += play(setting, worlds, walk(worlds, (5, 5)))
    at_target = play(setting, worlds, "KU")
    assert not worlds.done[0]
    at_target += play(setting, worlds, "U")
    assert at_target == near([0, 0, 0.5])
    assert worlds.done[0]
    assert sum(rewards + at_target) == near(1.0)


def test_t9_snake_eats_the_first_food_at_the_third_move():
    setting = task("Snake")
    worlds = start(setting)
    assert play(setting, worlds, "MMM") == near([0, 0, 0.05])
    assert agent(worlds) == (1, 6, EAST)
    assert cells_with(worlds, count=2) == [(1, 3), (1, 4), (1, 5)]
    assert cells_with(worlds, count=1) == [(6, 6)]


def test_t10_snake_bites_its_neck_and_the_bite_is_no_action():
    setting = task("Snake")
    worlds = start(setting)
    play(setting, worlds, "MMM")
    assert play(setting, worlds, "M") == near([0])
    assert agent(worlds) == (1, 6, WEST)
    assert not worlds.done[0]
    assert play(setting, worlds, "M") == near([0])
    assert worlds.done[0]
    assert agent(worlds) == (1, 5, WEST)
    assert worlds.actions[0] == 4


def test_t10_a_bite_is_not_counted_in_a_program_either():
    setting = task("Snake")
    worlds = start(setting)
    result = rollout(setting, ["DEF run m( move move move move move m)"], worlds)
    assert result.actions[0, 0] == 4
    assert result.returns[0, 0] == near(0.05)


def test_t11_snake_on_the_round_trip_eats_twenty_in_302_actions():
    setting = task("Snake")
    worlds = start(setting)
    following = dict(pairwise([*cycle(), (1, 1)]))
    total = 0.0
    while not worlds.done[0]:
        letters = towards(worlds, following[agent(worlds)[:2]])
        total += sum(play(setting, worlds, letters))
        assert worlds.actions[0] <= 302
    assert worlds.actions[0] == 302
    assert total == near(1.0)
    assert len(cells_with(worlds, count=2)) == 22
    assert len(cells_with(worlds, count=1)) == 1  # a 21st food is displayed


@pytest.mark.parametrize("first", range(36), ids=lambda first: str(cycle()[first]))
def test_one_stroke_along_a_round_trip_returns_one_from_every_start(first):
    cells = cycle()[first:] + cycle()[:first]
    setting = task("OneStroke")
    worlds = start(setting, room(*cells[0]))
    rewards = []
    for cell in cells[1:]:
        rewards += play(setting, worlds, towards(worlds, cell))
    assert sum(rewards) == near(35 / 36)
    assert not worlds.done[0]
    assert play(setting, worlds, "L") == near([PER_CELL])
    assert worlds.done[0]


def test_harvester_serpentine_needs_one_action_after_the_last_pick():
    setting = task("Harvester", "hprl")
    worlds = start(setting)
    rewards = play(setting, worlds, serpentine("K"))
    assert worlds.actions[0] == 81
    assert sum(rewards) == near(35 / 36)
    assert not worlds.done[0]
    assert play(setting, worlds, "L") == near([PER_CELL])
    assert worlds.actions[0] == 82
    assert worlds.done[0]


def test_seeder_serpentine_returns_one_in_81_actions():
    setting = task("Seeder")
    worlds = start(setting)
    rewards = play(setting, worlds, serpentine("U"))
    assert len(rewards) == 81
    assert sum(rewards) == near(1.0)
    assert worlds.done[0]


# ---------------------------------------------------------------- KAREL-LONG


SIGNAL_VISIT = 30  # the signal's cell (1,6) is the 31st on the serpentine
SOW_FIRST = serpentine("U", skip=SIGNAL_VISIT)
SOW = serpentine("U")
HARVEST = "K" + "M" + serpentine_back("K")[1:]  # the pick, a bump as a turn, the way back


def test_t17_farmer_sows_35_in_the_first_round_and_harvests_36():
    setting = task("Farmer")
    worlds = start(setting)
    sown = play(setting, worlds, SOW_FIRST)
    assert sum(sown) == near(35 / 720 - len(sown) * COST)
    assert len(cells_with(worlds)) == 36
    reaped = play(setting, worlds, HARVEST)
    assert sum(reaped) == near(36 / 720 - len(reaped) * COST)
    assert cells_with(worlds) == [(1, 6)]  # the signal for the second round
    assert worlds.grid[0, 1, 6] & ZERO_FLAG  # shown without clearing the zero flag
    play(setting, worlds, "M")
    sown = play(setting, worlds, SOW)
    assert sum(sown) == near(36 / 720 - len(sown) * COST)


def test_t17_farmer_serpentine_returns_0_834811_in_1638_actions():
    setting = task("Farmer")
    worlds = start(setting)
    rewards = []
    for turn in range(10):
        assert not worlds.done[0]
        rewards += play(setting, worlds, (SOW if turn else SOW_FIRST) + HARVEST)
        if turn < 9:
            rewards += play(setting, worlds, "M")
    assert worlds.done[0]
    assert len(rewards) == worlds.actions[0] == 1638
    assert sum(rewards) == near(719 / 720 - 1638 * COST)
    assert round(sum(rewards), 6) == 0.834811


def test_t18_farmer_does_not_pick_after_28_puts():
    setting = task("Farmer")
    worlds = start(setting)
    play(setting, worlds, _sow(28))
    assert play(setting, worlds, "K") == near([-COST])
    assert len(cells_with(worlds)) == 29
    assert play(setting, worlds, "MU")[-1] == near(1 / 720 - COST)  # still sowing


def test_t18_farmer_harvests_after_29_puts():
    setting = task("Farmer")
    worlds = start(setting)
    play(setting, worlds, _sow(29))
    assert play(setting, worlds, "K") == near([1 / 720 - COST])
    assert play(setting, worlds, "U") == near([-COST])  # no longer sowing
    assert len(cells_with(worlds)) == 29


def test_t18_farmer_harvests_after_29_puts_also_from_an_empty_cell():
    setting = task("Farmer")
    worlds = start(setting)
    play(setting, worlds, _sow(29))
    assert play(setting, worlds, "MKU")[1:] == near([-COST, -COST])
    assert len(cells_with(worlds)) == 30
    play(setting, worlds, "MM")  # a bump turns round, the next move goes back
    assert play(setting, worlds, "K") == near([1 / 720 - COST])


def _sow(puts):
    """The beginning of the serpentine with so many puts, ending with the last of them."""
    letters = serpentine("U")
    ends = [place for place, letter in enumerate(letters) if letter == "U"]
    return letters[: ends[puts - 1] + 1]


def test_t19_farmer_burns_rounds_by_picking_the_signal():
    setting = task("Farmer")
    worlds = start(setting)
    play(setting, worlds, SOW_FIRST + HARVEST)
    play(setting, worlds, walk(worlds, (1, 6)))
    assert play(setting, worlds, "KKU") == near([-COST, -COST, 1 / 720 - COST])


def test_t19_farmer_is_done_when_nine_picks_of_the_signal_follow_one_round():
    setting = task("Farmer")
    worlds = start(setting)
    play(setting, worlds, SOW_FIRST + HARVEST)
    play(setting, worlds, walk(worlds, (1, 6)))
    for _ in range(9):
        assert not worlds.done[0]
        play(setting, worlds, "K")
    assert worlds.done[0]
    assert play(setting, worlds, "UKM") == near([-COST] * 3)


INF_DOOR_KEY = """
########
#>..#..#
#...#m.#
#.m.#..#
########
#...#.m#
#m..#..#
########"""
INF_DOORS = [(2, 4), (4, 6), (6, 4), (4, 2)]
KEY_1, TARGET_1, KEY_2, TARGET_2 = (3, 2), (2, 5), (5, 6), (6, 1)
EVENTS = [(KEY_1, "K"), (TARGET_1, "U"), (KEY_2, "K"), (TARGET_2, "U")]


def test_t20_inf_door_key_opens_one_door_after_the_other():
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    assert walls(worlds) >= set(INF_DOORS)
    doors, markers, rewards = [], [], []
    for cell, letter in [*EVENTS, EVENTS[0]]:
        play(setting, worlds, walk(worlds, cell))
        rewards += play(setting, worlds, letter)
        doors.append("".join("C" if door in walls(worlds) else "O" for door in INF_DOORS))
        markers.append(len(cells_with(worlds)))
    assert rewards == near([0.01 - COST] * 5)
    assert doors == ["OCCC", "COCC", "CCOC", "CCCO", "OCCC"]
    assert markers == [3, 2, 1, 1, 1]


def test_t21_up_n_down_fines_every_action_off_the_stairs():
    setting = task("Up-N-Down")
    worlds = start(setting)
    rewards = play(setting, worlds, "LM")
    assert agent(worlds)[:2] == (4, 2)
    rewards += play(setting, worlds, "M")
    assert agent(worlds)[:2] == (3, 2)
    rewards += play(setting, worlds, "LUK")
    assert rewards == near([-0.0001] * 2 + [-0.0006] * 4)


def test_t22_seesaw_never_puts_but_sets_the_zero_flag():
    setting = task("Seesaw")
    worlds = start(setting)
    assert not worlds.grid[0, 8, 1] & ZERO_FLAG
    assert play(setting, worlds, "U") == near([-COST])
    assert worlds.grid[0, 8, 1] == ZERO_FLAG


def test_t23_inf_harvester_regrows_the_first_picked_marker_in_half_of_the_cases():
    setting = task("InfHarvester")
    worlds = draw_starts(setting, count=10_000, seed=3)
    rewards = act_on(setting, worlds, np.full(10_000, 3))
    assert rewards == near(1 / 392 - COST)
    regrown = np.count_nonzero(worlds.grid[:, 14, 1] & MARKERS)
    assert abs(regrown - 5000) < 4 * 50


# ---------------------------------------------------------------- T24


def _program(body):
    """A program with the braces of the specification's notation written out."""
    return f"DEF run m( {body} m)"


STAIRS = _program("WHILE c( noMarkersPresent c) w( turnLeft move turnRight move w)")
CORNERS = _program(
    "WHILE c( noMarkersPresent c) w( WHILE c( frontIsClear c) w( move w) "
    "IF c( noMarkersPresent c) i( putMarker turnLeft move i) w)"
)
TOPPING = _program("WHILE c( frontIsClear c) w( IF c( markersPresent c) i( putMarker i) move w)")
RIGHT_HAND = _program(
    "WHILE c( noMarkersPresent c) w( IFELSE c( rightIsClear c) i( turnRight i) "
    "ELSE e( WHILE c( not c( frontIsClear c) c) w( turnLeft w) e) move w)"
)
HARVESTING = _program(
    "WHILE c( markersPresent c) w( WHILE c( markersPresent c) w( pickMarker move w) "
    "turnRight move turnLeft WHILE c( markersPresent c) w( pickMarker move w) "
    "turnLeft move turnRight w)"
)
CLEANING = _program(
    "WHILE c( noMarkersPresent c) w( IF c( leftIsClear c) i( turnLeft i) move "
    "IF c( markersPresent c) i( pickMarker i) w)"
)


@cache
def _leaps(name, program, cap="calls220", **options):
    setting = task(name, "leaps", **options)
    return rollout(setting, [program], draw_starts(setting, count=200, seed=0), cap=cap)


def test_t24_stair_climber_program_is_worth_one():
    result = _leaps("StairClimber", STAIRS)
    assert result.returns == near(1.0)
    assert result.actions.max() == 36


def test_t24_four_corner_program_is_worth_one_in_52_actions():
    result = _leaps("FourCorner", CORNERS)
    assert result.returns == near(1.0)
    assert np.all(result.actions == 52)


def test_t24_top_off_program_is_worth_one_without_a_last_marker():
    result = _leaps("TopOff", TOPPING)
    assert result.returns == near(1.0)
    assert result.completed.all()


def test_t24_top_off_program_is_worth_nine_elevenths_with_a_last_marker():
    assert _leaps("TopOff", TOPPING, last_marker="always").returns == near(9 / 11)


def test_t24_maze_program_fails_only_where_the_marker_is_nearer_than_two_actions():
    result = _leaps("Maze", RIGHT_HAND, cap="actions1000")
    assert np.array_equal(result.returns == 1.0, result.actions >= 2)
    assert result.returns.mean() == pytest.approx(15 / 17, abs=0.07)  # three standard errors


def test_t24_maze_program_is_worth_about_seven_eighths_under_220_calls():
    assert _leaps("Maze", RIGHT_HAND).returns.mean() == pytest.approx(0.875, abs=0.07)


def test_t24_maze_program_returns_one_under_the_hprl_rule():
    setting = task("Maze", "hprl")
    worlds, _ = enumerate_starts(setting)
    assert rollout(setting, [RIGHT_HAND], worlds, cap="calls500").returns == near(1.0)


def test_t24_harvester_program_is_worth_one_in_90_actions():
    result = _leaps("Harvester", HARVESTING)
    assert result.returns == near(1.0)
    assert np.all(result.actions == 90)


@pytest.mark.parametrize(
    ("cap", "actions", "value"),
    [("calls220", 27, 0.0), ("calls500", 70, 0.0), ("actions1000", 250, 1.0)],
)
def test_t24_clean_house_program_needs_more_than_the_budget(cap, actions, value):
    result = _leaps("CleanHouse", CLEANING, cap=cap)
    assert result.returns == near(value)
    assert np.all(result.actions == actions)


ONE_STEP_AWAY = """
############
#..........#
#.......>m##
#........###
#.......##.#
#......##..#
#.....##...#
#....##....#
#...##.....#
#..##......#
#.##.......#
############"""


@pytest.mark.parametrize("body", ["turnLeft", "REPEAT R=0 r( move r)"])
def test_leaps_values_a_run_of_fewer_than_two_actions_at_zero(body):
    setting = task("StairClimber", "leaps")
    result = rollout(setting, [_program(body)], start(setting, ONE_STEP_AWAY))
    assert result.returns[0, 0] == 0.0


def test_leaps_does_not_value_an_arrival_by_the_only_action():
    setting = task("StairClimber", "leaps")
    trace = record(setting, [_program("move")], start(setting, ONE_STEP_AWAY))
    assert trace.arrays.reward[0, 0] == 1.0
    worlds = start(setting, ONE_STEP_AWAY)
    assert rollout(setting, [_program("move")], worlds).returns[0, 0] == 0.0
    assert rollout(setting, [_program("turnLeft turnRight move")], worlds).returns[0, 0] == 1.0

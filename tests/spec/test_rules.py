"""Rules of the tasks that no test vector shows: caps, flags, ends, options, scales, oracles.

Long on purpose: one section per task, in the order of the task specification.
"""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from playing import (
    EAST,
    MARKERS,
    WEST,
    ZERO_FLAG,
    agent,
    bare_world,
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

from pomp.engine import act_on, draw_starts, rollout
from pomp.tasks import find_task

COST, FINE = 0.0001, 0.0005
SCALES = [1, 2, 4, 8, 16]
LONG = ["Seesaw", "UpNDown", "Farmer", "InfDoorKey", "InfHarvester"]
each_scale = pytest.mark.parametrize("scale", SCALES)


def near(numbers):
    return pytest.approx(numbers, abs=1e-9)


def markers_at(worlds, row, col):
    return int(worlds.grid[0, row, col] & MARKERS)


# ---------------------------------------------------------------- the shared world


@pytest.mark.parametrize(
    ("letters", "pose"),
    [
        ("M", (1, 2, EAST)),
        ("MM", (1, 3, EAST)),
        ("MMM", (1, 3, WEST)),
        ("MMMM", (1, 2, WEST)),
        ("L", (1, 1, 0)),
        ("LL", (1, 1, 3)),
        ("R", (1, 1, 2)),
        ("LM", (1, 1, 2)),
    ],
)
def test_the_agent_moves_turns_and_turns_round_at_a_wall(letters, pose):
    setting, worlds = bare_world("#####\n#>..#\n#####")
    play(setting, worlds, letters)
    assert agent(worlds) == pose
    assert worlds.actions[0] == len(letters)


@pytest.mark.parametrize(
    ("name", "variant", "most"),
    [
        *[("StairClimber", "leaps", 9), ("FourCorner", "leaps", 9), ("Harvester", "leaps", 9)],
        *[("TopOff", "leaps", 9), ("Maze", "leaps", 9), ("CleanHouse", "leaps", 9)],
        *[("StairClimber", "hprl", 1), ("FourCorner", "hprl", 1), ("Harvester", "hprl", 1)],
        *[("TopOff", "hprl", 2), ("Maze", "hprl", 1), ("CleanHouse", "hprl", 1)],
        *[("DoorKey", "hprl", 2), ("OneStroke", "hprl", 1), ("Seeder", "hprl", 2)],
        *[("UpNDown", "hipo", 1), ("Farmer", "hipo", 1), ("InfHarvester", "hipo", 1)],
        *[("Seesaw", "hipo", 0), ("InfDoorKey", "hipo", None)],
    ],
)
def test_a_cell_holds_no_more_markers_than_the_variant_allows(name, variant, most):
    setting = task(name, variant)
    worlds = start(setting)
    row, col, _ = agent(worlds)
    before = markers_at(worlds, row, col)
    play(setting, worlds, "U" * 12)
    assert markers_at(worlds, row, col) == (before if most is None else max(most, before))


def test_a_failed_pick_sets_the_zero_flag():
    setting = task("FourCorner")
    worlds = start(setting)
    row, col, _ = agent(worlds)
    assert worlds.grid[0, row, col] == 0
    play(setting, worlds, "K")
    assert worlds.grid[0, row, col] == ZERO_FLAG


def test_a_put_clears_the_zero_flag():
    setting = task("TopOff")
    worlds = start(
        setting, "\n".join(["############", *["#..........#"] * 9, "#>.........#", "#" * 12])
    )
    assert worlds.grid[0, 10, 1] == ZERO_FLAG
    play(setting, worlds, "U")
    assert worlds.grid[0, 10, 1] == 1


# ---------------------------------------------------------------- StairClimber

STAIRS = """
############
#.........m#
#.........##
#........###
#.......##.#
#......##..#
#.....##...#
#....##....#
#...##.....#
#..##......#
#>##.......#
############"""
BELOW_THE_MARKER = STAIRS.replace(">", ".").replace("#.........m#", "#........>m#")


@pytest.mark.parametrize("variant", ["hprl", "leaps"])
def test_only_the_first_arrival_on_the_stairs_pays(variant):
    setting = task("StairClimber", variant)
    worlds = start(setting, BELOW_THE_MARKER)
    assert play(setting, worlds, "M") == near([1])
    assert worlds.done[0]
    assert play(setting, worlds, "LLMLLM") == near([0] * 6)


@pytest.mark.parametrize("variant", ["hprl", "leaps"])
def test_picking_and_putting_do_not_move_the_goal_of_the_stairs(variant):
    setting = task("StairClimber", variant)
    worlds = start(setting, BELOW_THE_MARKER)
    assert play(setting, worlds, "UKUM") == near([0, 0, 0, 1])


@pytest.mark.parametrize("variant", ["hprl", "leaps"])
def test_the_codes_allow_leaving_the_stairs(variant):
    setting = task("StairClimber", variant)
    worlds = start(setting, STAIRS)
    rewards = play(setting, worlds, "L" + "M" * 9 + "R" + "M" * 8)
    assert rewards == near([0] * 19)
    assert agent(worlds) == (1, 9, EAST)
    assert not worlds.done[0]
    assert play(setting, worlds, "M") == near([1])
    assert worlds.done[0]


@pytest.mark.parametrize(
    ("variant", "options"), [("paper", {}), ("hprl", {"off_stairs_penalty": 1})]
)
def test_the_paper_fines_leaving_the_stairs_and_ends(variant, options):
    setting = task("StairClimber", variant, **options)
    worlds = start(setting, STAIRS)
    assert play(setting, worlds, "LM") == near([0, 0])
    assert not worlds.done[0]
    assert play(setting, worlds, "M") == near([-1])
    assert worlds.done[0]


def test_the_stairs_have_nineteen_valid_cells():
    setting = task("StairClimber", "paper")
    stairs = [(11 - i, i) for i in range(1, 11)]
    valid = {*stairs, *((row - 1, col) for row, col in stairs if row > 1)}
    assert len(valid) == 19
    free = [(row, col) for row in range(1, 11) for col in range(1, 12 - row)]
    for cell in free:
        lines = [list(line) for line in STAIRS.replace(">", ".").strip().splitlines()]
        if cell == (1, 10):
            continue  # the marker's own cell
        lines[cell[0]][cell[1]] = ">"
        worlds = start(setting, "\n".join(map("".join, lines)))
        assert play(setting, worlds, "L") == near([0 if cell in valid else -1]), cell


def test_dense_hprl_stairs_charge_a_share_of_the_distance_off_the_stairs():
    setting = task("StairClimber", "hprl", dense="on")
    worlds = start(setting, STAIRS)  # 18 steps away
    assert play(setting, worlds, "LMM") == near([0, 1 / 18, -1 / 18])


def test_dense_leaps_stairs_pay_steps_and_value_their_mean():
    setting = task("StairClimber", "leaps", dense="on")
    worlds = start(setting, STAIRS)
    assert play(setting, worlds, "LMRMLMM") == near([0, 1, 0, 1, 0, 1, -1])
    program = "DEF run m( turnLeft move turnRight move m)"
    assert rollout(setting, [program], start(setting, STAIRS)).returns[0, 0] == near(2 / 4)


# ---------------------------------------------------------------- FourCorner


def corner_room(row, col):
    lines = [list("############"), *[list("#..........#") for _ in range(10)], list("############")]
    lines[row][col] = ">"
    return "\n".join(map("".join, lines))


def test_leaps_does_not_notice_a_wrong_marker_before_the_next_action():
    setting = task("FourCorner", "leaps")
    worlds = start(setting, corner_room(10, 1))
    assert play(setting, worlds, "UMUL") == near([0.25, 0.25, 0.25, 0])


def test_leaps_without_lag_notices_a_wrong_marker_at_once():
    setting = task("FourCorner", "leaps", lag="off")
    worlds = start(setting, corner_room(10, 1))
    assert play(setting, worlds, "UMUL") == near([0.25, 0.25, 0, 0])


def test_leaps_pays_again_when_the_wrong_marker_is_gone():
    setting = task("FourCorner", "leaps")
    worlds = start(setting, corner_room(10, 1))
    assert play(setting, worlds, "UMULKL") == near([0.25, 0.25, 0.25, 0, 0, 0.25])


@pytest.mark.parametrize(("variant", "options"), [("paper", {}), ("hprl", {"zero_on_wrong": "on"})])
def test_a_wrong_marker_takes_everything_away_in_the_paper(variant, options):
    setting = task("FourCorner", variant, **options)
    worlds = start(setting, corner_room(10, 1))
    assert sum(play(setting, worlds, "UMU")) == near(0)


@pytest.mark.parametrize("variant", ["hprl", "paper"])
def test_four_markers_in_the_corners_end_four_corner(variant):
    setting = task("FourCorner", variant)
    worlds = start(setting, corner_room(10, 1))
    rewards = []
    for corner in [(10, 1), (10, 10), (1, 10), (1, 1)]:
        assert not worlds.done[0]
        rewards += play(setting, worlds, walk(worlds, corner) + "U")
    assert sum(rewards) == near(1)
    assert worlds.done[0]
    assert play(setting, worlds, "KMU") == near([0, 0, 0])


# ---------------------------------------------------------------- TopOff


def bottom_row(text):
    return "\n".join(["############", *["#..........#"] * 9, text, "############"])


def test_a_third_marker_is_harmless_in_hprl_and_wrong_in_leaps():
    text = bottom_row("#e.........#")
    hprl, leaps = task("TopOff", "hprl"), task("TopOff", "leaps")
    assert play(hprl, start(hprl, text), "UUM") == near([1 / 11, 0, 1 / 11])
    assert play(leaps, start(leaps, text), "UUM") == near([1 / 11, 0, 0])


def test_moving_left_lowers_the_score_of_top_off():
    setting = task("TopOff", "hprl")
    worlds = start(setting, bottom_row("#>.........#"))
    assert play(setting, worlds, "MMLLM") == near([2 / 11, 1 / 11, 0, 0, -1 / 11])


def test_the_row_of_the_agent_does_not_matter_for_the_columns_of_top_off():
    setting = task("TopOff", "hprl")
    worlds = start(setting, bottom_row("#>.........#"))
    assert play(setting, worlds, "LMRM") == near([1 / 11, 0, 0, 1 / 11])


def test_a_marker_put_beside_the_targets_of_top_off_is_wrong():
    setting = task("TopOff", "hprl")
    worlds = start(setting, bottom_row("#>.........#"))
    assert play(setting, worlds, "MUK") == near([2 / 11, -1 / 11, 1 / 11])


def test_top_off_counts_columns_in_parts_of_one_less_than_the_width():
    setting = find_task("TopOff").configure(size=(8, 8))
    worlds = start(setting, "\n".join(["########", *["#......#"] * 5, "#>.....#", "########"]))
    assert play(setting, worlds, "MMMMM") == near([2 / 7, 1 / 7, 1 / 7, 1 / 7, 2 / 7])
    assert worlds.done[0]


def test_sparse_top_off_pays_one_when_everything_is_done():
    setting = task("TopOff", "hprl", dense="off")
    worlds = start(setting, bottom_row("#>...mm....#"))
    assert play(setting, worlds, "MMMMUMUMMMM") == near([0] * 10 + [1])
    assert worlds.done[0]


# ---------------------------------------------------------------- Maze

MAZE = """
########
########
#.....##
#####.##
#.#.#.##
#.#.#.##
#>.m..##
########"""


def test_leaps_pays_for_every_action_spent_on_the_marker_of_a_maze():
    setting = task("Maze", "leaps")
    worlds = start(setting, MAZE)
    assert play(setting, worlds, "MMLKRMLLM") == near([0, 1, 1, 1, 1, 0, 0, 0, 1])


def test_hprl_pays_once_for_the_marker_of_a_maze():
    setting = task("Maze", "hprl")
    worlds = start(setting, MAZE)
    assert play(setting, worlds, "MMLKRMLLM") == near([0, 1, 0, 0, 0, 0, 0, 0, 0])
    assert worlds.done[0]


# ---------------------------------------------------------------- CleanHouse


def test_the_stop_signal_of_hprl_clean_house_shrinks_and_does_not_grow():
    setting = task("CleanHouse", "hprl")
    worlds = start(setting)
    play(setting, worlds, walk(worlds, (2, 12)))
    counts = [markers_at(worlds, 2, 12)]
    for letter in "KUKU":
        assert play(setting, worlds, letter) == near([0])
        counts.append(markers_at(worlds, 2, 12))
    assert counts == [2, 1, 1, 0, 1]


def test_a_put_on_the_untouched_stop_signal_clips_it_to_one():
    setting = task("CleanHouse", "hprl")
    worlds = start(setting)
    play(setting, worlds, walk(worlds, (2, 12)) + "U")
    assert markers_at(worlds, 2, 12) == 1


@pytest.mark.parametrize(
    ("variant", "expected"), [("hprl", [0.1, 0, -0.1, 0.1]), ("leaps", [0.1, 0.1, 0, 0.1])]
)
def test_a_marker_put_back_in_the_house_is_dirt_again(variant, expected):
    setting = task("CleanHouse", variant)
    worlds = start(setting)
    target = cells_with(worlds, count=1)[0]
    play(setting, worlds, walk(worlds, target))
    assert play(setting, worlds, "KKUK") == near(expected)


def test_collecting_the_ten_markers_cleans_the_house():
    setting = task("CleanHouse", "hprl")
    worlds = start(setting)
    total = 0.0
    for target in cells_with(worlds, count=1):
        assert not worlds.done[0]
        total += sum(play(setting, worlds, walk(worlds, target) + "K"))
    assert total == near(1)
    assert worlds.done[0]
    assert play(setting, worlds, "U") == near([0])


# ---------------------------------------------------------------- Harvester


def test_an_extra_marker_counts_against_leaps_harvester():
    setting = task("Harvester", "leaps")
    assert play(setting, start(setting), "UL") == near([0, -1 / 36])


def test_an_extra_marker_changes_nothing_in_hprl_harvester():
    setting = task("Harvester", "hprl")
    assert play(setting, start(setting), "UL") == near([0, 0])


@pytest.mark.parametrize(("variant", "options"), [("paper", {}), ("hprl", {"lag": "off"})])
def test_harvester_without_lag_pays_at_once(variant, options):
    setting = task("Harvester", variant, **options)
    worlds = start(setting)
    assert play(setting, worlds, "K") == near([1 / 36])
    assert sum(play(setting, worlds, serpentine("K", skip=0))) == near(35 / 36)
    assert worlds.done[0]


# ---------------------------------------------------------------- KAREL-HARD

DOOR_KEY = "\n".join(
    ["########", "#e..#..#", *["#...#..#"] * 3, "#...#m.#", "#...#..#", "########"]
)


def test_one_stray_marker_is_free_once_the_key_is_taken():
    setting = task("DoorKey")
    worlds = start(setting, DOOR_KEY)
    assert play(setting, worlds, "KMUMU") == near([0.5, 0, 0, 0, -0.0001])


def test_door_key_is_not_done_with_stray_markers_about():
    setting = task("DoorKey")
    worlds = start(setting, DOOR_KEY)
    play(setting, worlds, "KMUMU")
    play(setting, worlds, walk(worlds, (5, 5)))
    assert play(setting, worlds, "U") == near([0.5])
    assert not worlds.done[0]


def test_the_paper_knows_no_fine_for_stray_markers():
    setting = task("DoorKey", "paper")
    assert play(setting, start(setting, DOOR_KEY), "KMUMU") == near([0.5, 0, 0, 0, 0])


def test_one_stroke_without_lag_pays_at_the_visit():
    setting = task("OneStroke", "paper")
    rewards = play(setting, start(setting, room(2, 1)), "MMMMM")
    assert sum(rewards) == near(6 / 36)


def test_one_stroke_goes_on_building_walls_after_done():
    setting = task("OneStroke")
    worlds = start(setting, room(2, 6))
    play(setting, worlds, "M")
    assert worlds.done[0]
    assert play(setting, worlds, "MM") == near([0, 0])
    assert {(2, 6), (2, 5)} <= walls(worlds)


def test_a_pick_costs_a_seeder_its_pay():
    setting = task("Seeder")
    worlds = start(setting)
    assert play(setting, worlds, "UKU") == near([1 / 36, -1 / 36, 1 / 36])
    assert not worlds.done[0]


FOODS = [
    *[(6, 6), (6, 1), (1, 1), (2, 2), (2, 5), (5, 5), (5, 2), (3, 3), (5, 3), (4, 4), (6, 4)],
    *[(3, 2), (1, 4), (6, 2), (2, 6), (4, 1), (1, 3), (2, 1), (3, 6), (4, 3), (5, 1), (2, 4)],
    *[(5, 4), (1, 5), (3, 5), (4, 6), (5, 6), (3, 1), (4, 2), (6, 5), (2, 3), (1, 2), (4, 5)],
    *[(3, 4), (6, 3)],
]


def test_the_food_of_the_snake_comes_from_a_fixed_list_skipping_taken_cells():
    setting = task("Snake")
    worlds = start(setting)
    following = dict(pairwise([*cycle(), (1, 1)]))
    pointer = 0
    while not worlds.done[0]:
        body = [*cells_with(worlds, count=2)]
        head = agent(worlds)[:2]
        (food,) = cells_with(worlds, count=1)
        letters = towards(worlds, following[head])
        play(setting, worlds, letters)
        if agent(worlds)[:2] == food:
            taken = {*body, head, food}  # the tail has not left yet when the food is placed
            while FOODS[pointer % 35] in taken:
                pointer += 1
            assert cells_with(worlds, count=1) == [FOODS[pointer % 35]]
            pointer += 1


def test_a_marker_put_by_the_snake_becomes_its_body():
    setting = task("Snake")
    worlds = start(setting)
    assert play(setting, worlds, "UM") == near([0, 0])
    assert cells_with(worlds, count=2) == [(1, 2), (1, 3)]
    assert cells_with(worlds, count=1) == [(1, 6)]


def test_the_tail_of_the_snake_bites_too():
    setting = task("Snake")
    worlds = start(setting)
    play(setting, worlds, "MMM")  # body (1,3) (1,4) (1,5), head (1,6)
    play(setting, worlds, "RMRM")  # head (2,5), body (1,5) (1,6) (2,6): the tail is above it
    assert cells_with(worlds, count=2) == [(1, 5), (1, 6), (2, 6)]
    play(setting, worlds, "RM")
    assert worlds.done[0]


# ---------------------------------------------------------------- KAREL-LONG


@pytest.mark.parametrize("name", LONG)
@each_scale
def test_every_action_costs_its_share(name, scale):
    setting = task(name, scale=scale)
    worlds = start(setting)
    assert play(setting, worlds, "LLRR") == near([-COST / scale] * 4)


def _pick_seesaw(setting, worlds):
    (cell,) = cells_with(worlds)
    return play(setting, worlds, walk(worlds, cell) + "K")


@each_scale
def test_a_seesaw_pick_pays_a_share_of_64(scale):
    setting = task("Seesaw", scale=scale)
    rewards = _pick_seesaw(setting, start(setting))
    assert rewards[-1] == near(1 / (64 * scale) - COST / scale)


@pytest.mark.parametrize("scale", [1, 2])
def test_seesaw_is_done_after_its_picks_and_then_only_costs(scale):
    setting = task("Seesaw", scale=scale)
    worlds = start(setting, seed=1)
    total = []
    for pick in range(64 * scale):
        assert not worlds.done[0]
        (cell,) = cells_with(worlds)
        assert (cell[1] <= 4) == (pick % 2 == 0)
        total += _pick_seesaw(setting, worlds)
    assert worlds.done[0]
    assert cells_with(worlds) == []
    assert sum(total) == near(1 - len(total) * COST / scale)
    assert play(setting, worlds, "MKU") == near([-COST / scale] * 3)


def test_a_pick_beside_the_seesaw_marker_pays_nothing_and_moves_nothing():
    setting = task("Seesaw")
    worlds = start(setting)
    assert play(setting, worlds, "KMKMK") == near([-COST] * 5)
    assert cells_with(worlds) == [(6, 3)]


def test_the_next_seesaw_marker_is_uniform_over_the_other_room():
    setting = task("Seesaw")
    worlds = draw_starts(setting, count=8000, seed=2)
    for letter in walk(worlds, (6, 3)) + "K":
        act_on(setting, worlds, np.full(8000, "MLRKU".index(letter)), threads=1)
    cells = Counter(map(tuple, np.argwhere(worlds.grid & MARKERS)[:, 1:].tolist()))
    assert set(cells) == {(row, col) for row in range(6, 10) for col in range(11, 15)}
    assert sum(cells.values()) == 8000
    assert max(abs(count - 500) for count in cells.values()) < 5 * 22


def _seesaw_episode(seed):
    setting = task("Seesaw")
    worlds = start(setting, seed=seed)
    rewards = []
    while not worlds.done[0]:
        rewards += _pick_seesaw(setting, worlds)
    return sum(rewards)


def test_the_seesaw_oracle_returns_0_905():
    assert np.mean([_seesaw_episode(seed) for seed in range(12)]) == pytest.approx(0.905, abs=0.003)


UP_VALID = {
    *[(6, 1), (5, 2), (4, 3), (3, 4), (2, 5), (1, 6)],
    *[(5, 1), (4, 2), (3, 3), (2, 4), (1, 5)],
}
UP_PENALTY = {(row, col) for row in range(1, 7) for col in range(1, 8 - row)} - UP_VALID


def _climb(setting, worlds):
    (goal,) = cells_with(worlds)
    return play(setting, worlds, walk(worlds, goal, avoid=frozenset(UP_PENALTY)))


@each_scale
def test_an_up_n_down_goal_pays_a_share_of_100(scale):
    setting = task("UpNDown", scale=scale)
    worlds = start(setting)
    assert _climb(setting, worlds)[-1] == near(1 / (100 * scale) - COST / scale)


@each_scale
def test_up_n_down_fines_shrink_with_the_scale(scale):
    setting = task("UpNDown", scale=scale)
    assert play(setting, start(setting), "LMM")[-1] == near(-(COST + FINE) / scale)


def test_the_paper_fines_ten_times_as_much():
    setting = task("UpNDown", "paper")
    assert play(setting, start(setting), "LMM")[-1] == near(-0.0051)


def test_up_n_down_has_ten_penalty_cells():
    assert len(UP_PENALTY) == 10
    setting = task("UpNDown")
    worlds = start(setting)
    for cell in sorted(UP_PENALTY):
        play(setting, worlds, walk(worlds, cell, avoid=frozenset({(1, 6)})))
        assert play(setting, worlds, "L") == near([-COST - FINE]), cell
    for cell in sorted(UP_VALID - {(1, 6)}):
        play(setting, worlds, walk(worlds, cell, avoid=frozenset({(1, 6)})))
        assert play(setting, worlds, "L") == near([-COST]), cell


@pytest.mark.parametrize("scale", [1, 2])
def test_up_n_down_is_done_after_its_goals_and_then_only_costs(scale):
    setting = task("UpNDown", scale=scale)
    worlds = start(setting, seed=1)
    rewards = []
    for goal in range(100 * scale):
        assert not worlds.done[0]
        (cell,) = cells_with(worlds)
        assert cell in UP_VALID
        if goal:
            assert (cell[0] < agent(worlds)[0]) == (goal % 2 == 0)
        rewards += _climb(setting, worlds)
    assert worlds.done[0]
    assert cells_with(worlds) == []
    assert sum(rewards) == near(1 - len(rewards) * COST / scale)
    assert play(setting, worlds, "LKR") == near([-COST / scale] * 3)


def test_the_next_down_goal_is_uniform_over_the_valid_cells_below():
    setting = task("UpNDown")
    worlds = draw_starts(setting, count=9000, seed=2)
    for letter in walk(worlds, (1, 6), avoid=frozenset(UP_PENALTY)):
        act_on(setting, worlds, np.full(9000, "MLRKU".index(letter)), threads=1)
    cells = Counter(map(tuple, np.argwhere(worlds.grid & MARKERS)[:, 1:].tolist()))
    assert set(cells) == {cell for cell in UP_VALID if cell[0] > 1}
    assert max(abs(count - 1000) for count in cells.values()) < 5 * 30


def test_markers_put_on_the_stairs_mean_nothing():
    setting = task("UpNDown")
    worlds = start(setting)
    assert play(setting, worlds, "ULRK") == near([-COST] * 4)
    assert cells_with(worlds) == [(1, 6)]


def _up_n_down_episode(seed):
    setting = task("UpNDown")
    worlds = start(setting, seed=seed)
    rewards = []
    while not worlds.done[0]:
        rewards += _climb(setting, worlds)
    return sum(rewards)


def test_the_up_n_down_oracle_returns_0_910():
    episodes = [_up_n_down_episode(seed) for seed in range(12)]
    assert np.mean(episodes) == pytest.approx(0.910, abs=0.006)


SOW_FIRST = serpentine("U", skip=30)
HARVEST = "K" + "M" + serpentine_back("K")[1:]


@each_scale
def test_a_farmer_put_pays_a_share_of_720(scale):
    setting = task("Farmer", scale=scale)
    assert play(setting, start(setting), "U") == near([1 / (720 * scale) - COST / scale])


@each_scale
def test_farmer_has_ten_rounds_times_the_scale(scale):
    setting = task("Farmer", scale=scale)
    worlds = start(setting)
    play(setting, worlds, SOW_FIRST + HARVEST)
    play(setting, worlds, walk(worlds, (1, 6)))
    for _ in range(10 * scale - 1):
        assert not worlds.done[0]
        play(setting, worlds, "K")
    assert worlds.done[0]


@pytest.mark.parametrize(("puts", "pay"), [(28, 0), (29, 1)])
def test_farmer_harvests_after_29_puts_in_the_second_round_too(puts, pay):
    setting = task("Farmer")
    worlds = start(setting)
    play(setting, worlds, SOW_FIRST + HARVEST + "M")
    letters = serpentine("U")
    ends = [place for place, letter in enumerate(letters) if letter == "U"]
    play(setting, worlds, letters[: ends[puts - 1] + 1])
    assert play(setting, worlds, "K") == near([pay / 720 - COST])


def test_farmer_does_not_pay_for_an_unsown_signal_in_the_harvest():
    setting = task("Farmer")
    worlds = start(setting)
    play(setting, worlds, SOW_FIRST + HARVEST + "M")
    play(setting, worlds, SOW_FIRST)  # 35 puts, none on the signal
    rewards = play(setting, worlds, HARVEST)
    assert sum(rewards) == near(35 / 720 - len(rewards) * COST)
    assert cells_with(worlds) == [(1, 6)]


def test_farmer_with_a_clean_signal_returns_at_most_710_parts():
    setting = task("Farmer", clean_signal="on")
    worlds = start(setting)
    rewards = []
    for turn in range(10):
        rewards += play(setting, worlds, serpentine("U") + HARVEST)
        if turn < 9:
            rewards += play(setting, worlds, "M")
    assert worlds.done[0]
    assert sum(rewards) == near(710 / 720 - len(rewards) * COST)


INF_DOOR_KEY = """
########
#>..#..#
#...#m.#
#.m.#..#
########
#...#.m#
#m..#..#
########"""
EVENTS = [((3, 2), "K"), ((2, 5), "U"), ((5, 6), "K"), ((6, 1), "U")]


def _pass(setting, worlds, event):
    cell, letter = EVENTS[event % 4]
    return play(setting, worlds, walk(worlds, cell) + letter)


@each_scale
def test_an_inf_door_key_event_pays_a_share_of_100(scale):
    setting = task("InfDoorKey", scale=scale)
    rewards = _pass(setting, start(setting, INF_DOOR_KEY), 0)
    assert rewards[-1] == near(1 / (100 * scale) - COST / scale)


@pytest.mark.parametrize(("scale", "events"), [(1, 99), (2, 198)])
def test_inf_door_key_is_done_after_99_hundredths(scale, events):
    setting = task("InfDoorKey", scale=scale)
    worlds = start(setting, INF_DOOR_KEY)
    rewards = []
    for event in range(events):
        assert not worlds.done[0]
        rewards += _pass(setting, worlds, event)
    assert worlds.done[0]
    assert sum(rewards) == near(0.99 - len(rewards) * COST / scale)
    if scale == 1:
        assert cells_with(worlds) == []  # the marker on target 2 is removed again
    assert play(setting, worlds, "KUL") == near([-COST / scale] * 3)


def test_inf_door_key_has_a_hundredth_event_as_an_option():
    setting = task("InfDoorKey", done_ratio="1")
    worlds = start(setting, INF_DOOR_KEY)
    rewards = []
    for event in range(100):
        assert not worlds.done[0]
        rewards += _pass(setting, worlds, event)
    assert worlds.done[0]
    assert sum(rewards) == near(1 - len(rewards) * COST)


def test_inf_door_key_keeps_its_cells_for_the_whole_episode():
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    shown = []
    for event in range(12):
        _pass(setting, worlds, event)
        shown.append(cells_with(worlds))
    following = [[(2, 5)], [(5, 6)], [(6, 1)], [(3, 2)]]
    assert shown[4:] == following * 2


def test_a_put_on_a_key_erases_its_marker_from_the_second_lap_on_and_the_pick_still_pays():
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    for event in range(4):
        _pass(setting, worlds, event)
    play(setting, worlds, walk(worlds, (3, 2)))
    assert markers_at(worlds, 3, 2) == 1
    play(setting, worlds, "U")
    assert markers_at(worlds, 3, 2) == 0
    assert play(setting, worlds, "K") == near([0.01 - COST])


def test_a_put_on_a_key_in_the_first_lap_changes_nothing():
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    play(setting, worlds, walk(worlds, (3, 2)) + "U")
    assert markers_at(worlds, 3, 2) == 1


def test_a_pick_on_a_target_erases_its_marker_and_the_put_still_pays():
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    _pass(setting, worlds, 0)
    play(setting, worlds, walk(worlds, (2, 5)) + "K")
    assert markers_at(worlds, 2, 5) == 0
    assert play(setting, worlds, "U") == near([0.01 - COST])


def test_a_delivered_target_has_no_flag_at_all():
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    _pass(setting, worlds, 0)
    _pass(setting, worlds, 1)
    assert worlds.grid[0, 2, 5] == 0


def test_an_event_out_of_turn_pays_nothing():
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    _pass(setting, worlds, 0)
    assert play(setting, worlds, "K") == near([-COST])


@pytest.mark.parametrize("stage", range(4))
def test_only_the_right_action_on_the_right_cell_is_an_event(stage):
    setting = task("InfDoorKey")
    worlds = start(setting, INF_DOOR_KEY)
    for event in range(stage):
        rewards = _pass(setting, worlds, event)
        assert rewards[:-1] == near([-COST] * (len(rewards) - 1))
    cell, letter = EVENTS[stage]
    row, col, _ = agent(worlds)
    doors = walls(worlds)
    assert (row, col) != cell
    assert play(setting, worlds, "KUKU") == near([-COST] * 4)  # beside the cell
    on_the_way = play(setting, worlds, walk(worlds, cell))
    wrong = "U" if letter == "K" else "K"
    rewards = play(setting, worlds, wrong + "LR")
    assert on_the_way + rewards == near([-COST] * (len(on_the_way) + 3))
    assert walls(worlds) == doors
    assert play(setting, worlds, letter) == near([0.01 - COST])


def _inf_door_key_episode(seed):
    """Find the cells by what is shown: key 1, target 1, key 2, target 2."""
    setting = task("InfDoorKey")
    worlds = start(setting, seed=seed)
    marked = cells_with(worlds)
    place = {(row > 4, col > 4): (row, col) for row, col in marked}
    order = [place[False, False], place[False, True], place[True, True], place[True, False]]
    rewards, event = [], 0
    while not worlds.done[0]:
        letters = walk(worlds, order[event % 4]) + "KU"[event % 2]
        rewards += play(setting, worlds, letters)
        event += 1
    return sum(rewards)


def test_the_inf_door_key_oracle_returns_0_915():
    episodes = [_inf_door_key_episode(seed) for seed in range(24)]
    assert np.mean(episodes) == pytest.approx(0.915, abs=0.005)
    assert min(episodes) > 0.89
    assert max(episodes) < 0.94


CHAMBERS = [(False, False), (False, True), (True, True), (True, False)]  # row > 4, col > 4


def _shown_in(worlds, chamber):
    (cell,) = [cell for cell in cells_with(worlds) if (cell[0] > 4, cell[1] > 4) == chamber]
    return cell


def _second_lap(setting, seed):
    """The four event cells of the first and of the second lap."""
    worlds = start(setting, seed=seed)
    cells = []
    for event in range(8):
        cells.append(_shown_in(worlds, CHAMBERS[event % 4]))
        rewards = play(setting, worlds, walk(worlds, cells[-1]) + "KU"[event % 2])
        assert rewards[-1] == near(0.01 - COST)
    return cells


@pytest.mark.parametrize(
    ("variant", "options"), [("paper", {}), ("hipo", {"redraw_per_lap": "on"})]
)
def test_the_paper_draws_new_cells_for_every_lap(variant, options):
    setting = task("InfDoorKey", variant, **options)
    laps = [_second_lap(setting, seed) for seed in range(360)]
    for event, size in enumerate([9, 6, 4, 6]):
        counts = Counter(cells[4 + event] for cells in laps)
        same = sum(cells[event] == cells[4 + event] for cells in laps)
        error = 5 * np.sqrt(360 * (1 / size) * (1 - 1 / size))
        assert len(counts) == size
        assert max(abs(count - 360 / size) for count in counts.values()) < error
        assert abs(same - 360 / size) < error


@each_scale
def test_inf_harvester_regrows_with_the_probability_of_its_scale(scale):
    setting = task("InfHarvester", scale=scale)
    worlds = draw_starts(setting, count=6400, seed=5)
    rewards = act_on(setting, worlds, np.full(6400, 3))
    assert rewards == near(1 / (392 * scale) - COST / scale)
    chance = 1 - 1 / (2 * scale)
    regrown = np.count_nonzero(worlds.grid[:, 14, 1] & MARKERS)
    assert abs(regrown - 6400 * chance) < 5 * np.sqrt(6400 * chance * (1 - chance))


def test_a_marker_regrows_on_any_emptied_cell_alike():
    setting = task("InfHarvester")
    worlds = draw_starts(setting, count=40_000, seed=7)
    for letter in "KM":
        act_on(setting, worlds, np.full(40_000, "MLRKU".index(letter)), threads=1)
    still_empty = np.flatnonzero(worlds.grid[:, 14, 1] & MARKERS == 0)
    worlds = worlds.take(still_empty)
    act_on(setting, worlds, np.full(len(worlds), 3))
    first = np.count_nonzero(worlds.grid[:, 14, 1] & MARKERS)
    second = np.count_nonzero(worlds.grid[:, 14, 2] & MARKERS)
    error = 5 * np.sqrt(len(worlds) * 3 / 16)
    assert abs(first - len(worlds) / 4) < error
    assert abs(second - len(worlds) / 4) < error


def test_a_marker_regrows_in_half_of_the_cases_and_in_every_row_as_often_as_its_share():
    setting = task("InfHarvester")
    worlds = draw_starts(setting, count=400, seed=8)
    regrown, expected = np.zeros((16, 16)), np.zeros((16, 16))  # [agent's row, marker's row]
    for letter in serpentine("K", rows=14, cols=14):
        before = worlds.grid.copy()
        row, col = worlds.row.copy(), worlds.col.copy()
        act_on(setting, worlds, np.full(400, "MLRKU".index(letter)), threads=1)
        if letter == "K":
            candidates = before & ZERO_FLAG != 0
            candidates[np.arange(400), row, col] = True
            before[np.arange(400), row, col] = 0
            grown = (worlds.grid & MARKERS > 0) & (before & MARKERS == 0)
            assert not np.any(grown & ~candidates)
            assert grown.sum(axis=(1, 2)).max() <= 1
            share = candidates.sum(axis=2) / candidates.sum(axis=(1, 2))[:, None] / 2
            np.add.at(regrown, row, grown.sum(axis=2))
            np.add.at(expected, row, share)
    for axis in (0, 1):
        errors = np.abs(regrown.sum(axis=axis) - expected.sum(axis=axis))
        assert np.all(errors <= 5 * np.sqrt(expected.sum(axis=axis)))


def test_the_agents_own_marker_pays_nothing_and_blocks_its_cell():
    setting = task("InfHarvester")
    worlds = start(setting)
    while markers_at(worlds, 14, 1):
        play(setting, worlds, "K")
    assert play(setting, worlds, "UK") == near([-COST, -COST])
    assert markers_at(worlds, 14, 1) == 0  # no respawn either
    play(setting, worlds, "UM")
    for _ in range(3):
        play(setting, worlds, "K")
        if not markers_at(worlds, 14, 2):
            break
    assert markers_at(worlds, 14, 1) == 1


def _blocking_episode(seed):
    """Pick a cell until nothing regrows, put an own marker there, go on along the rows."""
    setting = task("InfHarvester")
    worlds = start(setting, seed=seed)
    rewards = []
    for cell in range(196):
        row, col, _ = agent(worlds)
        while markers_at(worlds, row, col):
            rewards += play(setting, worlds, "K")
        if cell < 195:
            at_the_end = cell % 14 == 13
            turn = "L" if (cell // 14) % 2 == 0 else "R"
            rewards += play(setting, worlds, "U" + (turn + "M" + turn if at_the_end else "M"))
    return sum(rewards)


def test_the_blocking_strategy_returns_about_0_918_on_inf_harvester():
    episodes = [_blocking_episode(seed) for seed in range(40)]
    assert np.mean(episodes) == pytest.approx(0.918, abs=4 * 0.05 / np.sqrt(40))


def test_inf_harvester_goes_on_paying_after_its_done_flag():
    setting = task("InfHarvester")
    paid_after_done = 0
    for seed in range(30):
        worlds = start(setting, seed=seed)
        for cell in range(196):
            row, col, _ = agent(worlds)
            while markers_at(worlds, row, col):
                was_done = worlds.done[0]
                (reward,) = play(setting, worlds, "K")
                assert reward == near(1 / 392 - COST)
                paid_after_done += int(was_done)
            turn = "L" if (cell // 14) % 2 == 0 else "R"
            play(setting, worlds, "U" + (turn + "M" + turn if cell % 14 == 13 else "M"))
    assert paid_after_done > 0

"""Where episodes start: maps, flags, every start with its probability, and drawn starts.

Long on purpose: maps, probabilities and draws of one task are read together.
"""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from playing import EAST, MARKERS, NORTH, SOUTH, WALL, WEST, ZERO_FLAG, task

from pomp.core import ConfigError, Purpose
from pomp.engine import draw_starts, enumerate_starts
from pomp.karel import Map
from pomp.tasks import TASKS, find_task

DRAWN = 20_000


def only_start(setting):
    """The text of the one start of a deterministic task."""
    texts = {
        draw_starts(setting, count=20, seed=seed).to_text(w) for seed in (0, 1) for w in (0, 19)
    }
    assert len(texts) == 1
    return texts.pop()


@cache
def listed(name, variant=None, **options):
    """Every start as (map text, probability)."""
    _, starts = enumerate_starts(task(name, variant, **options))
    return [(start.map.to_text(), start.probability) for start in starts]


def maps_of(name, variant=None, **options):
    """Every start as a map."""
    return [Map.from_text(text) for text, _ in listed(name, variant, **options)]


def markers(start):
    """The marked cells of a map."""
    return [(int(row), int(col)) for row, col in np.argwhere(start.grid & MARKERS)]


def pose(start):
    return start.row, start.col, int(start.facing)


# ---------------------------------------------------------------- maps of single starts

FIXED = {
    ("FourCorner", "leaps"): [
        "############",
        *["#..........#"] * 9,
        "#.>........#",
        "############",
    ],
    ("Harvester", "hprl"): ["########", *["#mmmmmm#"] * 5, "#emmmmm#", "########"],
    ("Harvester", "leaps"): ["########", *["#mmmmmm#"] * 5, "#emmmmm#", "########"],
    ("Seeder", "hprl"): ["########", *["#......#"] * 5, "#>.....#", "########"],
    ("Snake", "hprl"): ["########", "#22>..m#", *["#......#"] * 5, "########"],
    ("Seesaw", "hipo"): [
        *["################"] * 6,
        *["#..m.######....#", "#..............#", "#>.............#", "#....######....#"],
        *["################"] * 6,
    ],
    ("UpNDown", "hipo"): [
        *["########", "#.....m#", "#.....##", "#....###"],
        *["#...##.#", "#.>##..#", "#.##...#", "########"],
    ],
    ("Farmer", "hipo"): ["########", "#.....m#", *["#......#"] * 4, "#>.....#", "########"],
    ("InfHarvester", "hipo"): [
        *["################", *["#mmmmmmmmmmmmmm#"] * 13],
        *["#emmmmmmmmmmmmm#", "################"],
    ],
}


@pytest.mark.parametrize(("name", "variant"), FIXED)
def test_a_task_without_chance_starts_from_its_map(name, variant):
    assert only_start(task(name, variant)).splitlines() == FIXED[name, variant]


@pytest.mark.parametrize(("name", "variant"), FIXED)
def test_a_task_without_chance_lists_one_start(name, variant):
    assert listed(name, variant) == [("\n".join(FIXED[name, variant]), 1)]


FLAGGED = ["StairClimber", "TopOff", "Maze", "CleanHouse", "DoorKey", "UpNDown"]


@pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.name)
def test_the_zero_flag_is_set_everywhere_but_under_markers_or_nowhere(kind):
    grid = draw_starts(kind.configure(), count=20, seed=0).grid
    flags = grid & ZERO_FLAG != 0
    if kind.name in FLAGGED:
        assert np.array_equal(flags, grid & MARKERS == 0)
    else:
        assert not flags.any()


@pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.name)
def test_an_episode_starts_without_actions_and_not_done(kind):
    worlds = draw_starts(kind.configure(), count=20, seed=0)
    assert not worlds.done.any()
    assert not worlds.actions.any()


# ---------------------------------------------------------------- every start

RANDOM = [
    *[("StairClimber", "hprl", 45), ("StairClimber", "leaps", 45), ("FourCorner", "hprl", 8)],
    *[("TopOff", "hprl", 512), ("TopOff", "leaps", 512), ("DoorKey", "hprl", 3888)],
    *[("OneStroke", "hprl", 36), ("InfDoorKey", "hipo", 5184)],
]
each_random = pytest.mark.parametrize(("name", "variant", "count"), RANDOM)


@each_random
def test_a_task_lists_each_of_its_starts_once(name, variant, count):
    texts = [text for text, _ in listed(name, variant)]
    assert len(texts) == len(set(texts)) == count


@each_random
def test_the_probabilities_of_the_starts_add_up_to_one(name, variant, count):
    probabilities = [probability for _, probability in listed(name, variant)]
    assert all(isinstance(probability, Fraction) for probability in probabilities)
    assert sum(probabilities) == 1


@pytest.mark.parametrize(
    ("name", "variant", "count"), [row for row in RANDOM if row[0] != "TopOff"]
)
def test_the_starts_are_equally_likely(name, variant, count):
    assert {probability for _, probability in listed(name, variant)} == {Fraction(1, count)}


STAIRCASE = """
############
#..........#
#.........##
#........###
#.......##.#
#......##..#
#.....##...#
#....##....#
#...##.....#
#..##......#
#.##.......#
############"""


def test_stair_climber_starts_below_its_marker():
    stairs = [(11 - i, i) for i in range(1, 11)]
    expected = {(low, high) for i, low in enumerate(stairs) for high in stairs[i + 1 :]}
    found = set()
    for start in maps_of("StairClimber"):
        walls = ["".join("#" if cell & WALL else "." for cell in row) for row in start.grid]
        assert walls == STAIRCASE.strip().splitlines()
        assert start.facing == EAST
        (marker,) = markers(start)
        found.add(((start.row, start.col), marker))
    assert found == expected


def test_four_corner_starts_beside_a_corner_along_the_wall():
    assert {pose(start) for start in maps_of("FourCorner")} == {
        *[(9, 10, NORTH), (9, 10, SOUTH), (10, 2, EAST), (10, 2, WEST)],
        *[(2, 1, SOUTH), (2, 1, NORTH), (1, 9, WEST), (1, 9, EAST)],
    }


def _top_off_columns(start):
    assert pose(start) == (10, 1, EAST)
    assert all(row == 10 for row, _ in markers(start))
    return frozenset(col for _, col in markers(start))


def test_top_off_marks_each_column_but_the_last_with_probability_one_quarter():
    seen = set()
    for start, (_, probability) in zip(maps_of("TopOff"), listed("TopOff"), strict=True):
        columns = _top_off_columns(start)
        assert columns <= set(range(1, 10))
        assert probability == Fraction(1, 4) ** len(columns) * Fraction(3, 4) ** (9 - len(columns))
        seen.add(columns)
    assert len(seen) == 512


def test_top_off_with_a_last_marker_always_marks_the_last_column():
    starts = maps_of("TopOff", "leaps", last_marker="always")
    assert len(starts) == 512
    assert all(10 in _top_off_columns(start) for start in starts)


def test_door_key_starts_in_the_left_room_with_the_key_and_the_target_right():
    seen = set()
    left = [(row, col) for row in range(1, 7) for col in range(1, 4)]
    right = [(row, col) for row in range(1, 7) for col in range(5, 7)]
    for start in maps_of("DoorKey"):
        (key,) = [cell for cell in markers(start) if cell in left]
        (target,) = [cell for cell in markers(start) if cell in right]
        assert start.facing == EAST
        assert np.all(start.grid[1:7, 4] & WALL)
        seen.add(((start.row, start.col), key, target))
    assert seen == {(agent, key, target) for agent in left for key in left for target in right}


def test_one_stroke_starts_anywhere_facing_east():
    poses = {pose(start) for start in maps_of("OneStroke")}
    assert poses == {(row, col, EAST) for row in range(1, 7) for col in range(1, 7)}
    assert not any(markers(start) for start in maps_of("OneStroke"))


INF_DOOR_KEY = [
    "########",
    "#...#..#",
    "#...#..#",
    "#...#..#",
    "########",
    "#...#..#",
    "#...#..#",
    "########",
]


def test_inf_door_key_starts_near_its_corner_with_a_marker_in_every_chamber():
    seen = set()
    for start in maps_of("InfDoorKey"):
        walls = ["".join("#" if cell & WALL else "." for cell in row) for row in start.grid]
        assert walls == INF_DOOR_KEY
        assert start.facing == EAST
        assert start.row in (1, 2)
        assert start.col in (1, 2)
        chambers = sorted((row > 4, col > 4) for row, col in markers(start))
        assert chambers == [(False, False), (False, True), (True, False), (True, True)]
        seen.add((pose(start), *markers(start)))
    assert len(seen) == 4 * 9 * 6 * 4 * 6


# ---------------------------------------------------------------- mazes

NODES = [(row, col) for row in (2, 4, 6) for col in (1, 3, 5)]


def _neighbours(node):
    row, col = node
    around = [(row - 2, col), (row + 2, col), (row, col - 2), (row, col + 2)]
    return [neighbour for neighbour in around if neighbour in NODES]


@cache
def _finish(stack, visited):
    """Every way to finish a maze: added passages -> probability."""
    if not stack:
        return {frozenset(): Fraction(1)}
    node, rest = stack[-1], stack[:-1]
    orders = list(permutations(cell for cell in _neighbours(node) if cell not in visited))
    finished = Counter()
    for order in orders:
        pushed = tuple(cell for neighbour in order for cell in (node, neighbour))
        passages = {((node[0] + n[0]) // 2, (node[1] + n[1]) // 2) for n in order}
        for rest_passages, probability in _finish(rest + pushed, visited | set(order)).items():
            finished[rest_passages | passages] += probability / len(orders)
    return dict(finished)


def mazes():
    """Every maze of the published generator as (open cells, probability)."""
    corner = (6, 1)
    passages = _finish((corner,), frozenset([corner]))
    return {frozenset(NODES) | opened: odds for opened, odds in passages.items()}


def _open_cells(start):
    return frozenset((int(row), int(col)) for row, col in np.argwhere(start.grid & WALL == 0))


def _maze_odds(variant):
    """Open cells -> marker cells -> probability, as the package lists them."""
    odds = {}
    for start, (_, probability) in zip(
        maps_of("Maze", variant), listed("Maze", variant), strict=True
    ):
        assert pose(start) == (6, 1, EAST)
        (marker,) = markers(start)
        cells = odds.setdefault(_open_cells(start), {})
        assert marker not in cells
        cells[marker] = probability
    return odds


def test_every_maze_has_17_open_cells():
    assert all(len(cells) == 17 for cells in mazes())
    assert sum(mazes().values()) == 1


def test_the_listed_mazes_are_those_of_the_published_generator_with_their_probabilities():
    odds = {cells: sum(by_marker.values()) for cells, by_marker in _maze_odds("hprl").items()}
    assert odds == mazes()
    assert len(set(odds.values())) > 1


@pytest.mark.parametrize(("variant", "cells"), [("hprl", 16), ("leaps", 17)])
def test_the_marker_of_a_maze_is_equally_likely_on_each_open_cell(variant, cells):
    for open_cells, by_marker in _maze_odds(variant).items():
        places = open_cells if variant == "leaps" else open_cells - {(6, 1)}
        assert set(by_marker) == places
        assert len(by_marker) == cells
        assert len(set(by_marker.values())) == 1


@pytest.mark.parametrize("variant", ["hprl", "leaps"])
def test_the_probabilities_of_the_mazes_add_up_to_one(variant):
    assert sum(probability for _, probability in listed("Maze", variant)) == 1


# ---------------------------------------------------------------- drawn starts


def drawn(setting, seed=0, purpose=Purpose.EVALUATION):
    """How often each start is drawn, by its text."""
    worlds = draw_starts(setting, count=DRAWN, seed=seed, purpose=purpose)
    shown = worlds.cells & np.uint8(MARKERS | WALL)
    keys = [(row.tobytes(), int(pose)) for row, pose in zip(shown, worlds.pose, strict=True)]
    example = dict(zip(keys, range(DRAWN), strict=True))
    return {worlds.to_text(example[key]): count for key, count in Counter(keys).items()}


def is_likely(counts, odds, sigmas=5.0):
    """Pearson's test: start -> count against start -> probability; rare starts are pooled."""
    assert set(counts) <= set(odds)
    total = sum(counts.values())
    rare = [start for start in odds if total * odds[start] < 3]
    pairs = [
        (counts.get(start, 0), total * odds[start]) for start in odds if start not in set(rare)
    ]
    if rare:
        pool = sum(counts.get(start, 0) for start in rare)
        pairs.append((pool, total * sum(odds[start] for start in rare)))
    statistic = sum((float(count) - float(due)) ** 2 / float(due) for count, due in pairs)
    freedom = len(pairs) - 1
    return abs(statistic - freedom) < sigmas * np.sqrt(2 * freedom) + 5


DRAWN_TASKS = [*[row[:2] for row in RANDOM], ("Maze", "hprl"), ("Maze", "leaps")]


@pytest.mark.parametrize(("name", "variant"), DRAWN_TASKS)
def test_drawn_starts_are_as_likely_as_listed(name, variant):
    assert is_likely(drawn(task(name, variant)), dict(listed(name, variant)))


def test_the_likelihood_test_notices_a_small_bias():
    counts = drawn(task("FourCorner"))
    odds = dict(listed("FourCorner"))
    first, second, *_ = odds
    odds[first] *= Fraction(11, 10)
    odds[second] *= Fraction(9, 10)
    assert not is_likely(counts, odds)


@pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.name)
def test_the_same_seed_gives_the_same_bytes(kind):
    setting = kind.configure()
    one, two = (draw_starts(setting, count=50, seed=3) for _ in range(2))
    assert [array.tobytes() for array in one.arrays] == [array.tobytes() for array in two.arrays]


@pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.name)
def test_the_first_starts_do_not_depend_on_how_many_are_drawn(kind):
    setting = kind.configure()
    few, many = (draw_starts(setting, count=count, seed=3) for count in (7, 50))
    assert few.cells.tobytes() == many.cells[:7].tobytes()
    assert few.stream.tobytes() == many.stream[:7].tobytes()


CHANCY = ["StairClimber", "TopOff", "Maze", "CleanHouse", "DoorKey", "OneStroke", "InfDoorKey"]


@pytest.mark.parametrize("name", CHANCY)
def test_different_seeds_give_different_starts(name):
    batches = {_bytes(draw_starts(task(name), count=50, seed=seed)) for seed in range(20)}
    assert len(batches) == 20


@pytest.mark.parametrize("name", CHANCY)
def test_different_purposes_give_different_starts(name):
    batches = {
        _bytes(draw_starts(task(name), count=50, seed=0, purpose=purpose)) for purpose in Purpose
    }
    assert len(batches) == len(Purpose)


def _bytes(worlds):
    return worlds.cells.tobytes() + worlds.pose.tobytes()


@pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.name)
def test_no_two_worlds_share_a_random_stream(kind):
    setting = kind.configure()
    streams = np.concatenate(
        [
            draw_starts(setting, count=500, seed=seed, purpose=purpose).stream
            for seed in range(3)
            for purpose in (Purpose.EVALUATION, Purpose.TRAINING)
        ]
    )
    assert len(np.unique(streams)) == len(streams)


def test_a_number_of_starts_below_one_is_refused():
    with pytest.raises(ConfigError, match="0"):
        draw_starts(task("Maze"), count=0, seed=0)


def test_a_seed_may_be_a_numpy_integer():
    setting = task("Maze")
    plain, numpys = (draw_starts(setting, count=5, seed=seed) for seed in (3, np.int64(3)))
    assert plain.cells.tobytes() == numpys.cells.tobytes()


def test_a_negative_seed_is_refused():
    with pytest.raises(ConfigError, match="-1"):
        draw_starts(task("Maze"), count=1, seed=-1)


# ---------------------------------------------------------------- CleanHouse

HOUSE = """
######################
#cc##########x#......#
#cc#ccccccccx.#####.##
##c#c.....x.........##
##ccc.cccc#x........##
###c#c###c#x.###.#.###
#ccc#ccc#cx..#...#..##
#c.c#c.c#c...#...#...#
#c.c#c.c#c..c#...##..#
#c.c#c.c##cc##...##.##
#c.c#c.c##cc##...#..##
#c.c#c.c##cc##...#..##
#ccc#ccc##cc##...#..##
######################""".strip().splitlines()
each_house = pytest.mark.parametrize("variant", ["hprl", "leaps"])


@cache
def houses(variant):
    return draw_starts(task("CleanHouse", variant), count=DRAWN, seed=0)


def _house_mask(signs):
    return np.array([[sign in signs for sign in row] for row in HOUSE])


@each_house
def test_every_clean_house_has_the_walls_of_the_map(variant):
    assert _house_mask("c").sum() == 68
    assert _house_mask(".cx").sum() == 160
    assert np.array_equal(
        houses(variant).grid & WALL != 0, np.broadcast_to(_house_mask("#"), (DRAWN, 14, 22))
    )


@each_house
def test_the_agent_of_a_clean_house_stands_at_the_top_facing_south(variant):
    worlds = houses(variant)
    assert set(zip(worlds.row, worlds.col, worlds.facing, strict=True)) == {(1, 13, SOUTH)}


@each_house
def test_a_clean_house_has_ten_single_markers_beside_walls_and_two_at_the_stop_signal(variant):
    counts = houses(variant).grid & MARKERS
    assert np.all(counts[:, 2, 12] == 2)
    singles = counts == 1
    assert np.all(singles.sum(axis=(1, 2)) == 10)
    assert not np.any(singles & ~_house_mask("c"))
    assert np.all(counts.sum(axis=(1, 2)) == 12)


@each_house
def test_every_cell_of_a_clean_house_is_marked_equally_often(variant):
    chosen = (houses(variant).grid & MARKERS == 1)[:, _house_mask("c")]  # [B, 68]
    share = 10 / 68
    errors = chosen.sum(axis=0) - DRAWN * share
    statistic = np.sum(errors**2) / (DRAWN * share * (1 - share)) * 67 / 68
    assert abs(statistic - 67) < 5 * np.sqrt(2 * 67)


@each_house
def test_the_markers_of_a_clean_house_are_chosen_independently_of_each_other(variant):
    chosen = (houses(variant).grid & MARKERS == 1)[:, _house_mask("c")].astype(float)
    together = (chosen.T @ chosen)[np.triu_indices(68, 1)]
    share = 10 / 68 * 9 / 67
    worst = np.abs(together - DRAWN * share).max() / np.sqrt(DRAWN * share * (1 - share))
    assert worst < 5


def _moved(start, source, goal):
    """A map with the markers of one cell moved to another."""
    grid = start.grid.copy()
    grid[goal], grid[source] = grid[source], 0
    return Map(grid, start.row, start.col, start.facing)


def test_clean_house_knows_its_starts_although_it_cannot_list_them():
    kind = find_task("CleanHouse")
    start = houses("hprl").map_of(0)
    marked = [cell for cell in markers(start) if cell != (2, 12)]
    unmarked = [tuple(cell) for cell in np.argwhere(_house_mask("c") & (start.grid == 0)).tolist()]
    assert kind.is_start(start)
    assert kind.is_start(_moved(start, marked[0], unmarked[0]))
    assert not kind.is_start(_moved(start, marked[0], (3, 10)))
    assert not kind.is_start(_moved(start, marked[0], (12, 15)))
    assert not kind.is_start(_moved(start, (2, 12), (2, 13)))
    assert not kind.is_start(_moved(start, marked[0], marked[1]))
    assert not kind.is_start(Map(start.grid, 1, 13, NORTH))
    assert not kind.is_start(Map(start.grid, 2, 13, SOUTH))


def test_clean_house_has_too_many_starts_to_list():
    with pytest.raises(ConfigError, match="CleanHouse"):
        enumerate_starts(task("CleanHouse"))


# ---------------------------------------------------------------- other sizes


def sized(name, height, width, variant=None):
    return find_task(name).configure(variant=variant, size=(height, width))


@pytest.mark.parametrize(
    ("name", "count"), [("StairClimber", 15), ("TopOff", 32), ("FourCorner", 8)]
)
def test_a_task_has_hprls_size_of_eight_too(name, count):
    _, starts = enumerate_starts(sized(name, 8, 8))
    assert len(starts) == count
    assert sum(start.probability for start in starts) == 1


def test_four_corner_starts_beside_the_corners_of_any_size():
    _, starts = enumerate_starts(sized("FourCorner", 8, 10))
    assert {pose(start.map) for start in starts} == {
        *[(5, 8, NORTH), (5, 8, SOUTH), (6, 2, EAST), (6, 2, WEST)],
        *[(2, 1, SOUTH), (2, 1, NORTH), (1, 7, WEST), (1, 7, EAST)],
    }


def test_a_larger_maze_is_a_tree_over_its_nodes():
    worlds = draw_starts(sized("Maze", 12, 12), count=50, seed=0)
    for world in range(50):
        cells = _open_cells(worlds.map_of(world))
        nodes = {(row, col) for row in range(2, 11, 2) for col in range(1, 11, 2)}
        assert nodes <= cells
        assert len(cells) == 25 + 24
        assert _reachable(cells, (10, 1)) == cells


def _reachable(cells, first):
    found, pending = {first}, [first]
    while pending:
        row, col = pending.pop()
        around = {(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)} & cells - found
        found |= around
        pending += around
    return found


def test_the_rooms_of_a_wider_seesaw_are_a_third_of_it():
    worlds = draw_starts(sized("Seesaw", 20, 26), count=1, seed=0)
    rows = worlds.to_text().splitlines()
    room, hall, wall = "." * 8, "." * 8, "#" * 8
    assert rows[8] == f"#..m.....{wall}{room}#"
    assert rows[9] == f"#{room}{hall}{room}#"
    assert rows[10] == f"#>.......{hall}{room}#"
    assert rows[11] == f"#{room}{wall}{room}#"
    assert {row for index, row in enumerate(rows) if index not in range(8, 12)} == {"#" * 26}


# ---------------------------------------------------------------- the paper's wording


def test_the_paper_starts_a_maze_anywhere():
    starts = listed("Maze", "paper")
    assert sum(probability for _, probability in starts) == 1
    cells = {pose(Map.from_text(text))[:2] for text, _ in starts}
    assert len(cells) > 9
    assert all(len(markers(Map.from_text(text))) == 1 for text, _ in starts)


def test_the_paper_draws_the_first_seesaw_marker_in_the_left_chamber():
    starts = listed("Seesaw", "paper")
    cells = {tuple(markers(Map.from_text(text))) for text, _ in starts}
    assert cells == {((row, col),) for row in range(6, 10) for col in range(1, 5)}
    assert {probability for _, probability in starts} == {Fraction(1, 16)}


def test_four_corner_has_the_fixed_start_as_an_option():
    ((text, probability),) = listed("FourCorner", "hprl", start="fixed")
    assert text.splitlines() == FIXED["FourCorner", "leaps"]
    assert probability == 1

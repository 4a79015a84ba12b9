"""Arbitrary input: nothing crashes, everything stops, and two interpreters agree.

Long on purpose: text, tokens, maps and calls are drawn by one set of strategies at its top.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from oracle import Plain, Reader, UnderActions, UnderCalls, is_program
from playing import MARKERS, WALL, bare_world, start, task

from pomp.core import ConfigError, ProgramSyntaxError, WorldError
from pomp.dsl import (
    HPRL,
    LEAPS,
    MAX_TOKENS,
    SamplerConfig,
    compile_ids,
    compile_programs,
    parse,
    print_program,
    sample_programs,
)
from pomp.engine import act_on, advance, draw_starts, record, rollout
from pomp.karel import Facing, Map
from pomp.tasks import RANDOM_WORLD

# ---------------------------------------------------------------- strategies

SEEDS = st.integers(0, 2**32 - 1)
TOKENS = st.sampled_from(LEAPS.tokens)
ACTIONS = ("move", "turnRight", "turnLeft", "pickMarker", "putMarker")
PERCEPTIONS = LEAPS.tokens[41:46]
LEVELS = ("WHILE", "REPEAT", "IF", "IFELSE", "ELSE")
ALL_VOCABULARIES = st.sampled_from([LEAPS, HPRL])
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4"]


def opening(rng, kind):
    """The tokens up to and with the bracket of a body, and the tokens that close it."""
    condition = f"c( {rng.choice(PERCEPTIONS)} c)"
    if rng.random() < 0.3:
        condition = f"c( not {condition} c)"
    if kind == "REPEAT":
        return f"REPEAT R={rng.integers(20)} r(", "r)"
    if kind == "ELSE":
        return f"IFELSE {condition} i( {rng.choice(ACTIONS)} i) ELSE e(", "e)"
    if kind == "IFELSE":
        return f"IFELSE {condition} i(", f"i) ELSE e( {rng.choice(ACTIONS)} e)"
    bracket = "w" if kind == "WHILE" else "i"
    return f"{kind} {condition} {bracket}(", f"{bracket})"


def write_program(seed, length, depth, kinds=LEVELS):
    """A random program of about so many tokens, nested no deeper than so many levels."""
    rng = np.random.default_rng(seed)
    text, closers, size = ["DEF run m("], [], 5
    is_filled = False
    while size < length:
        toss = rng.random()
        if toss < 0.45 and len(closers) < depth and size < length - 14:
            opened, closed = opening(rng, rng.choice(kinds))
            text.append(opened)
            closers.append(closed)
            size += len(f"{opened} {closed}".split())
            is_filled = False
        elif toss < 0.65 and closers and is_filled:
            text.append(closers.pop())
        else:
            text.append(rng.choice(ACTIONS))
            size += 1
            is_filled = True
    if not is_filled:
        text.append(rng.choice(ACTIONS))
    return " ".join([*text, *reversed(closers), "m)"])


SHORT_PROGRAMS = st.builds(write_program, SEEDS, st.integers(5, 60), st.integers(0, 8))
LONG_PROGRAMS = st.builds(write_program, SEEDS, st.integers(100, 4000), st.integers(0, 600))
PROGRAMS = SHORT_PROGRAMS | LONG_PROGRAMS
CAPS = st.builds("{}{}".format, st.just("calls"), st.integers(1, 600)) | st.builds(
    "{}{}".format, st.just("actions"), st.integers(1, 300)
)


@st.composite
def edited_programs(draw):
    """The tokens of a program with a few of them dropped, replaced, inserted or swapped."""
    tokens = draw(SHORT_PROGRAMS).split()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(tokens) - 1))
        edit = draw(st.sampled_from(["drop", "replace", "insert", "swap", "cut", "double"]))
        if edit == "drop" and len(tokens) > 1:
            del tokens[place]
        elif edit == "replace":
            tokens[place] = draw(TOKENS)
        elif edit == "insert":
            tokens.insert(place, draw(TOKENS))
        elif edit == "swap":
            tokens[place - 1], tokens[place] = tokens[place], tokens[place - 1]
        elif edit == "cut":
            tokens = tokens[: max(place, 1)]
        else:
            tokens[place:place] = tokens[place : place + draw(st.integers(1, 8))]
    return tokens


# ---------------------------------------------------------------- text


def attempt(expected, function, *arguments):
    """What a function returns, or the expected error it raises; another error fails the test."""
    try:
        return function(*arguments)
    except expected as error:
        return error


def parses(text, vocabulary=LEAPS):
    """Whether a text is a program; any other answer than a syntax error fails the test."""
    answer = attempt(ProgramSyntaxError, parse, text, vocabulary)
    if isinstance(answer, ProgramSyntaxError):
        assert 0 <= answer.position <= len(text.split())
        assert str(answer)
        return False
    assert print_program(answer).split() == text.split()
    return True


@settings(max_examples=300)
@given(st.text())
def test_arbitrary_text_is_refused_with_a_syntax_error(text):
    assert not parses(text)


@settings(max_examples=300)
@given(st.lists(TOKENS | st.text(max_size=3), max_size=30), ALL_VOCABULARIES)
def test_arbitrary_tokens_parse_only_if_they_are_a_program(tokens, vocabulary):
    text = " ".join(tokens)
    assert parses(text, vocabulary) == is_program(text.split(), vocabulary.counts)


@settings(max_examples=500)
@given(edited_programs(), ALL_VOCABULARIES)
def test_an_edited_program_parses_only_if_it_is_a_program(tokens, vocabulary):
    assert parses(" ".join(tokens), vocabulary) == is_program(tokens, vocabulary.counts)


@settings(max_examples=60)
@given(PROGRAMS)
def test_long_and_deep_programs_round_trip(text):
    tree = parse(text)
    assert print_program(tree) == text
    assert parse(print_program(tree, indent=True)) == tree


def _nested(level):
    """The deepest program of one kind of level."""
    closer = level.split()[-1].replace("(", ")")
    depth = (MAX_TOKENS - 5) // (len(level.split()) + 1)
    return " ".join(["DEF run m(", *[level] * depth, "move", *[closer] * depth, "m)"])


each_level = pytest.mark.parametrize("level", ["REPEAT R=2 r(", "IF c( frontIsClear c) i("])


@each_level
def test_a_program_may_nest_as_deep_as_4096_tokens_allow(level):
    tree = parse(_nested(level))
    assert print_program(tree) == _nested(level)
    setting, worlds = bare_world()
    result = rollout(setting, [tree], worlds, cap="actions50", threads=1)
    assert result.actions[0, 0] == (50 if "REPEAT" in level else 1)


@each_level
def test_the_deepest_program_parses_in_its_indented_layout_too(level):
    tree = parse(_nested(level))
    assert parse(print_program(tree, indent=True)) == tree


def test_a_condition_may_be_negated_as_often_as_4096_tokens_allow():
    depth = 1360
    condition = "not c( " * depth + "frontIsClear" + " c)" * depth
    text = f"DEF run m( IF c( {condition} c) i( move i) m)"
    assert len(text.split()) <= MAX_TOKENS
    assert print_program(parse(text)) == text
    setting, worlds = bare_world()
    assert rollout(setting, [text], worlds, threads=1).actions[0, 0] == 1


# ---------------------------------------------------------------- token ids


def _is_row_of_a_program(row, vocabulary):
    """What `compile_ids` should say about one row of plain Python integers."""
    ids = row[: row.index(vocabulary.pad)] if vocabulary.pad in row else row
    if not all(0 <= index < vocabulary.pad for index in ids):
        return False
    return is_program([vocabulary.tokens[index] for index in ids], vocabulary.counts)


@settings(max_examples=300)
@given(st.data(), st.sampled_from(INTEGERS), ALL_VOCABULARIES)
def test_arbitrary_ids_are_judged_row_by_row(data, dtype, vocabulary):
    limits = np.iinfo(dtype)
    near = st.integers(max(limits.min, -3), min(limits.max, 60))
    far = st.integers(limits.min, limits.max)
    width = data.draw(st.integers(0, 12))
    rows = data.draw(st.lists(st.lists(near | far, min_size=width, max_size=width), max_size=4))
    ids = np.array(rows, dtype=dtype).reshape(len(rows), width)
    expected = [_is_row_of_a_program(row, vocabulary) for row in rows]
    assert compile_ids(ids, vocabulary).valid.tolist() == expected


@settings(max_examples=300)
@given(st.lists(edited_programs(), min_size=1, max_size=4), st.data(), st.sampled_from(INTEGERS))
def test_parser_and_compiler_agree_on_padded_rows(programs, data, dtype):
    width = max(map(len, programs)) + data.draw(st.integers(0, 3))
    ids = np.full((len(programs), width), LEAPS.pad, dtype)
    for row, tokens in zip(ids, programs, strict=True):
        row[: len(tokens)] = LEAPS.encode(tokens)
    expected = [parses(" ".join(_up_to_padding(tokens))) for tokens in programs]
    assert compile_ids(ids).valid.tolist() == expected


def _up_to_padding(tokens):
    return tokens[: tokens.index("<pad>")] if "<pad>" in tokens else tokens


@settings(max_examples=100)
@given(SHORT_PROGRAMS, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
def test_what_stands_behind_the_padding_does_not_matter(text, rest):
    ids = [*LEAPS.encode(text.split()), LEAPS.pad, *rest]
    assert compile_ids(np.array([ids])).valid[0]


@settings(max_examples=100)
@given(SHORT_PROGRAMS, st.integers(-(2**63), 2**63 - 1), st.integers(0, 4))
def test_an_id_outside_the_vocabulary_makes_a_row_invalid(text, index, place):
    assume(not 0 <= index <= LEAPS.pad)
    ids = LEAPS.encode(text.split())
    ids[place] = index
    assert not compile_ids(np.array([ids])).valid[0]


def test_an_invalid_row_does_nothing_when_it_is_run():
    setting, worlds = bare_world()
    code = compile_ids(np.array([[0, 1, 2, 3, 50], [0, 1, 2, 4, 3], [99, -1, 2, 4, 3]]))
    assert code.valid.tolist() == [False, True, False]
    assert rollout(setting, code, worlds).actions[:, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "ids",
    [np.zeros(5, int), np.zeros((2, 2, 2), int), np.zeros((1, 5)), np.zeros((1, 5), bool)],
    ids=["one axis", "three axes", "floats", "booleans"],
)
def test_ids_that_are_no_rows_of_integers_are_refused(ids):
    with pytest.raises(ConfigError, match="integers of shape"):
        compile_ids(ids)


# ---------------------------------------------------------------- runs


def _plain(worlds, world=0):
    """The same world for the slow interpreter."""
    rows = [
        [None if cell & WALL else int(cell & MARKERS) for cell in row] for row in worlds.grid[world]
    ]
    return Plain(rows, (int(worlds.row[world]), int(worlds.col[world]), int(worlds.facing[world])))


def _random_worlds(seed, walls, markers, count=4):
    setting = RANDOM_WORLD.configure(options={"walls": walls, "markers": markers})
    return setting, draw_starts(setting, count=count, seed=seed)


def _agrees_with_the_slow_interpreter(text, cap, setting, worlds):
    trace = record(setting, [text], worlds, cap=cap)
    result = rollout(setting, [text], worlds, cap=cap, keep_worlds=True, threads=1)
    body = Reader(text.split()).program()
    interpreter = UnderCalls if cap.startswith("calls") else UnderActions
    limit = int(cap.removeprefix("calls").removeprefix("actions"))
    for world in range(len(worlds)):
        slow = interpreter(_plain(worlds, world), limit)
        completed = slow.run(body)
        actions = slow.world.trace
        assert trace.arrays.action[world, : len(actions)].tolist() == actions
        assert trace.arrays.length[world] == result.actions[0, world] == len(actions)
        if interpreter is UnderCalls:
            assert trace.calls[world, 0] == result.calls[0, world] == slow.calls
            assert result.completed[0, world] == completed
        for final in (result.worlds, trace.worlds):
            fast = _plain(final, world)
            assert fast.rows == slow.world.rows
            assert (fast.row, fast.col, fast.facing) == (
                *(slow.world.row, slow.world.col),
                slow.world.facing,
            )


@settings(max_examples=400)
@given(SHORT_PROGRAMS, CAPS, SEEDS, st.sampled_from(["0", "0.1", "0.4"]))
def test_short_programs_run_as_the_slow_interpreter_says(text, cap, seed, walls):
    setting, worlds = _random_worlds(seed, walls, "0.3")
    _agrees_with_the_slow_interpreter(text, cap, setting, worlds)


@settings(max_examples=60)
@given(st.builds(write_program, SEEDS, st.integers(60, 900), st.integers(0, 60)), CAPS, SEEDS)
def test_longer_programs_run_as_the_slow_interpreter_says(text, cap, seed):
    setting, worlds = _random_worlds(seed, "0.1", "0.3", count=2)
    _agrees_with_the_slow_interpreter(text, cap, setting, worlds)


@settings(max_examples=60)
@given(
    st.builds(
        write_program, SEEDS, st.integers(60, 300), st.integers(5, 60), st.just(("REPEAT", "IF"))
    ),
    st.builds("actions{}".format, st.integers(1, 300)),
    SEEDS,
)
def test_nested_repeats_under_an_action_cap_run_as_the_slow_interpreter_says(text, cap, seed):
    setting, worlds = _random_worlds(seed, "0.1", "0.3", count=2)
    _agrees_with_the_slow_interpreter(text, cap, setting, worlds)


TASKS = [
    *[("OneStroke", "hprl"), ("Snake", "hprl"), ("FourCorner", "leaps")],
    *[("Farmer", "hipo"), ("InfHarvester", "hipo")],
]
each_task = pytest.mark.parametrize(("name", "variant"), TASKS)


def _is_inside(worlds):
    """Whether every agent stands on a free cell within the ring."""
    row, col = worlds.row, worlds.col
    within = (row > 0) & (row < worlds.height - 1) & (col > 0) & (col < worlds.width - 1)
    free = worlds.grid[np.arange(len(worlds)), row, col] & WALL == 0
    return bool(np.all(within & free))


@each_task
@settings(max_examples=40)
@given(PROGRAMS, CAPS, SEEDS)
def test_every_program_stops_inside_the_walls(name, variant, text, cap, seed):
    setting = task(name, variant)
    worlds = draw_starts(setting, count=3, seed=seed)
    result = rollout(setting, [text], worlds, cap=cap, keep_worlds=True, threads=1)
    limit = int(cap.removeprefix("calls").removeprefix("actions"))
    assert result.actions.max() <= limit
    assert np.isfinite(result.returns).all()
    assert _is_inside(result.worlds)
    assert np.all(result.worlds.grid[:, [0, -1]] & WALL)
    assert np.all(result.worlds.grid[:, :, [0, -1]] & WALL)


@each_task
def test_a_run_does_not_depend_on_threads_or_neighbours(name, variant):
    setting = task(name, variant)
    worlds = draw_starts(setting, count=16, seed=4)
    code = compile_ids(sample_programs(50, 9, SamplerConfig(max_tokens=64)))
    one = rollout(setting, code, worlds, keep_worlds=True, threads=1)
    two = rollout(setting, code, worlds, keep_worlds=True, threads=2)
    alone = rollout(setting, code, worlds.take([5]), keep_worlds=True)
    assert one.returns.tobytes() == two.returns.tobytes()
    assert one.worlds.cells.tobytes() == two.worlds.cells.tobytes()
    assert one.returns[:, [5]].tobytes() == alone.returns.tobytes()
    assert one.worlds.take(np.arange(50) * 16 + 5).cells.tobytes() == alone.worlds.cells.tobytes()


@each_task
def test_a_recorded_run_a_rollout_and_an_advance_end_alike(name, variant):
    setting = task(name, variant)
    worlds = draw_starts(setting, count=8, seed=6)
    code = compile_ids(sample_programs(8, 21, SamplerConfig(max_tokens=64)))
    lists = np.arange(8)[:, None]
    rolled = rollout(setting, code, worlds, lists=lists, keep_worlds=True)
    diagonal = rolled.worlds.take(np.arange(8) * 9)
    recorded = record(setting, code, worlds, lists=lists, paired=True)
    assert diagonal.cells.tobytes() == recorded.worlds.cells.tobytes()
    if variant != "leaps":  # there the value is not a sum
        kept = np.arange(recorded.arrays.reward.shape[1]) < recorded.arrays.length[:, None]
        sums = np.where(kept, recorded.arrays.reward, 0.0).sum(axis=1)
        assert sums == pytest.approx(np.diagonal(rolled.returns), abs=1e-9)
    advanced = advance(setting, code, worlds, np.arange(8))  # changes the worlds
    assert advanced.returns[:, 0].tobytes() == np.diagonal(rolled.returns).tobytes()
    assert worlds.cells.tobytes() == diagonal.cells.tobytes()


@each_task
@settings(max_examples=25)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), SEEDS)
def test_actions_by_hand_stay_inside_the_walls(name, variant, actions, seed):
    setting = task(name, variant)
    worlds = draw_starts(setting, count=1, seed=seed)
    for action in actions:
        reward = act_on(setting, worlds, [action], threads=1)
        assert np.isfinite(reward).all()
    assert _is_inside(worlds)


@pytest.mark.parametrize("actions", [[5], [-1], [0, 0], []])
def test_actions_that_do_not_fit_are_refused(actions):
    setting, worlds = bare_world()
    with pytest.raises(ConfigError):
        act_on(setting, worlds, actions)


# ---------------------------------------------------------------- maps


@settings(max_examples=200)
@given(st.text(alphabet="#.m2>n \n^", max_size=60) | st.text(max_size=20))
def test_arbitrary_text_is_a_map_or_refused_with_a_world_error(text):
    answer = attempt(WorldError, Map.from_text, text)
    if isinstance(answer, WorldError):
        assert str(answer)
    else:
        assert Map.from_text(answer.to_text()).to_text() == answer.to_text()


@st.composite
def maps(draw, height=8, width=8):
    """A walled room with anything in it and an agent somewhere."""
    signs = st.sampled_from(draw(st.sampled_from([".", ".#", ".m", ".#m2", ".....m", "m2"])))
    rows = [
        draw(st.lists(signs, min_size=width - 2, max_size=width - 2)) for _ in range(height - 2)
    ]
    row, col = draw(st.integers(0, height - 3)), draw(st.integers(0, width - 3))
    rows[row][col] = draw(st.sampled_from("^>v<nesw"))
    return "\n".join(["#" * width, *(f"#{''.join(line)}#" for line in rows), "#" * width])


@pytest.mark.parametrize("name", ["OneStroke", "Snake", "Farmer"])
@settings(max_examples=60)
@given(maps(), SHORT_PROGRAMS)
def test_a_task_takes_up_an_arbitrary_map_or_refuses_it(name, text, program):
    setting = task(name)
    answer = attempt(WorldError, start, setting, text)
    if isinstance(answer, WorldError):
        assert name in str(answer)
        return
    result = rollout(setting, [program], answer, keep_worlds=True, threads=1)
    assert np.isfinite(result.returns).all()
    assert _is_inside(result.worlds)


def test_a_map_of_another_size_is_refused():
    setting = task("Farmer")
    with pytest.raises(WorldError, match="8x8"):
        start(setting, "#####\n#>.m#\n#####")


@pytest.mark.parametrize(("row", "col"), [(0, 0), (7, 1), (100, 100), (-1, 3)])
def test_a_map_with_its_agent_outside_is_refused(row, col):
    grid = Map.from_text("########\n#>.....#\n########").grid
    with pytest.raises(WorldError, match="free cell"):
        Map(grid, row, col, Facing.EAST)


def test_worlds_of_another_task_are_refused():
    with pytest.raises(ConfigError, match="Harvester"):
        rollout(task("Harvester"), ["DEF run m( move m)"], start(task("Seeder")))


def test_worlds_of_another_size_are_refused():
    _, worlds = bare_world("#####\n#>..#\n#####")
    with pytest.raises(ConfigError, match="3x5"):
        rollout(task("Farmer"), compile_programs(["DEF run m( move m)"]), worlds)

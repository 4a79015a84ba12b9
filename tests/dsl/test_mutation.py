"""Mutations of programs: which neighbours each move reaches, and what all of them keep to."""

from collections import Counter

import numpy as np
import pytest
from oracle import ACTIONS, PERCEPTIONS, Reader

from pomp.dsl import mutation
from pomp.dsl.mutation import Limits, Move, propose_programs
from pomp.dsl.vocabulary import LEAPS

PAD = LEAPS.tokens.index("<pad>")
EXAMPLE = (
    "DEF run m( move WHILE c( frontIsClear c) w( turnLeft IF c( not c( markersPresent c) c) "
    "i( pickMarker i) w) REPEAT R=3 r( IFELSE c( leftIsClear c) i( move i) "
    "ELSE e( putMarker move e) r) m)"
)
OTHERS = (
    "DEF run m( move m)",
    "DEF run m( move turnLeft move m)",
    "DEF run m( IF c( rightIsClear c) i( WHILE c( frontIsClear c) w( move w) i) m)",
)


def ids_of(text, width=45):
    row = np.full(width, PAD, np.uint8)
    tokens = [LEAPS.tokens.index(token) for token in text.split()]
    row[: len(tokens)] = tokens
    return row


def text_of(row):
    return " ".join(LEAPS.tokens[i] for i in row if i != PAD)


def streams_of(count, seed=0):
    return np.random.default_rng(seed).integers(0, 2**63, count).astype(np.uint64)


def tree_of(text):
    """Nested tuples; an independent reading of the text."""

    def frozen(part):
        return tuple(map(frozen, part)) if isinstance(part, list | tuple) else part

    return frozen(Reader(text.split()).program())


def bodies_of(statement):
    return [part for part in statement[2:] if part] if statement[0] != "act" else []


def depth_of(body):
    return max(1 + max(map(depth_of, bodies_of(s)), default=0) for s in body)


def widest(body):
    return max([len(body)] + [widest(inner) for s in body for inner in bodies_of(s)])


def mutants(text, move, count=400, limits=None, seed=0):
    """The trees that one kind of move makes of a program."""
    limits = limits or Limits()
    mutation.MOVES["this"] = (move,)
    try:
        rows = np.repeat(ids_of(text, limits.tokens)[None], count, axis=0)
        is_new = np.zeros(count, bool)
        out = propose_programs(rows, is_new, streams_of(count, seed), "this", limits)
    finally:
        del mutation.MOVES["this"]
    return {tree_of(text_of(row)) for row in out}


# ---------------------------------------------------------------- neighbours, from the moves' names


def edits(body, edit):
    """Every body that `edit` makes of one body of a tree; it maps a body to bodies."""
    yield from edit(body)
    for i, s in enumerate(body):
        for place in range(2, len(s)):
            if s[0] != "act" and s[place]:
                for inner in edits(s[place], edit):
                    yield (*body[:i], (*s[:place], inner, *s[place + 1 :]), *body[i + 1 :])


def cuts(body):
    """Every tree without some neighbours, no body left empty."""

    def cut(body):
        for i, j in spans(body):
            if j - i < len(body):
                yield body[:i] + body[j:]

    return set(edits(body, cut))


def spans(body):
    return [(i, j) for i in range(len(body)) for j in range(i + 1, len(body) + 1)]


def unwrapped(body):
    def unwrap(body):
        for i, s in enumerate(body):
            for inner in bodies_of(s):
                yield body[:i] + inner + body[i + 1 :]

    return set(edits(body, unwrap))


def swapped(body):
    def swap(body):
        for i in range(len(body) - 1):
            yield (*body[:i], body[i + 1], body[i], *body[i + 2 :])

    return set(edits(body, swap))


def all_spans(body):
    found = {body[i:j] for i, j in spans(body)}
    return found.union(*(all_spans(inner) for s in body for inner in bodies_of(s)))


def with_span(body, span):
    return set(edits(body, lambda b: (b[:i] + span + b[i:] for i in range(len(b) + 1))))


def copied(body):
    return set().union(*(with_span(body, span) for span in all_spans(body)))


def shifted(body):
    """Every tree with neighbours cut out, no body left empty, and put in anywhere else."""
    found = set()
    for span in all_spans(body):

        def cut(b, span=span):
            return (b[:i] + b[j:] for i, j in spans(b) if b[i:j] == span and j - i < len(b))

        found.update(*(with_span(rest, span) for rest in set(edits(body, cut))))
    return found


def relabelled(body, change):
    """Every tree with the own fields of one statement changed."""

    def edit(body):
        for i, s in enumerate(body):
            for new in change(s):
                yield (*body[:i], new, *body[i + 1 :])

    return set(edits(body, edit))


def points(s):
    if s[0] == "act":
        yield from (("act", a) for a in range(5) if a != s[1])
    elif s[0] == "repeat":
        yield from (("repeat", n, s[2]) for n in range(20) if n != s[1])
    else:
        yield from ((s[0], (p, s[1][1]), *s[2:]) for p in range(5) if p != s[1][0])


def negated(s):
    if s[0] in ("while", "if"):
        yield (s[0], (s[1][0], not s[1][1]), *s[2:])


def bounded(s):
    if s[0] == "while":
        yield from (("repeat", n, (("if", *s[1:], None),)) for n in range(20))


def without_else(s):
    if s[0] == "if" and s[3]:
        yield (*s[:3], None)


COMPLETE = {
    Move.POINT: lambda tree: relabelled(tree, points),
    Move.DELETE: cuts,
    Move.UNWRAP: unwrapped,
    Move.COPY: copied,
    Move.SHIFT: shifted,
    Move.SWAP: swapped,
    Move.NEGATE: lambda tree: relabelled(tree, negated),
    Move.BOUND: lambda tree: relabelled(tree, bounded),
}


@pytest.mark.parametrize("text", [EXAMPLE, *OTHERS])
@pytest.mark.parametrize("move", COMPLETE)
def test_a_move_reaches_all_its_neighbours_and_nothing_else(move, text):
    limits, tree = Limits(tokens=80, depth=9, body=9), tree_of(text)
    found = mutants(text, move, 6000, limits) - {tree}
    assert found == COMPLETE[move](tree) - {tree}


@pytest.mark.parametrize("text", [EXAMPLE, *OTHERS])
@pytest.mark.parametrize(("move", "back"), [(Move.INSERT, cuts), (Move.WRAP, unwrapped)])
def test_what_is_put_in_can_be_taken_out_again(move, back, text):
    tree = tree_of(text)
    found = mutants(text, move) - {tree}
    assert len(found) > 20
    assert all(tree in back(mutant) for mutant in found)


def test_a_branch_is_added_or_taken_away():
    tree = tree_of(EXAMPLE)
    lost = relabelled(tree, without_else)
    found = mutants(EXAMPLE, Move.BRANCH) - {tree}
    assert lost < found
    assert all(tree in relabelled(mutant, without_else) for mutant in found - lost)


# ---------------------------------------------------------------- every program that comes out


@pytest.mark.parametrize("moves", ["subtree", "rich", "bounding"])
@pytest.mark.parametrize("limits", [Limits(), Limits(tokens=20, depth=2, body=3), Limits(depth=6)])
def test_walks_stay_within_the_limits(moves, limits):
    count, streams = 300, streams_of(300)
    rows, is_new = np.full((count, limits.tokens), PAD, np.uint8), np.ones(count, bool)
    seen = Counter()
    for step in range(25):
        before = rows
        rows = propose_programs(rows, is_new, streams, moves, limits)
        for row in rows:
            text = text_of(row)
            tree = tree_of(text)
            assert len(text.split()) <= limits.tokens
            assert depth_of(tree) <= limits.depth
            assert widest(tree) <= limits.body
            assert "not c( not" not in text
            seen.update(text.split())
        is_new[:] = False
        if step:
            assert (rows != before).any(axis=1).mean() > 0.6
    used = {*ACTIONS, *PERCEPTIONS, "WHILE", "IF", "IFELSE", "REPEAT", "not"}
    assert used <= set(seen)
    assert {f"R={n}" for n in range(20)} <= set(seen)


@pytest.mark.parametrize("moves", ["subtree", "rich", "bounding"])
def test_a_change_depends_on_its_stream_and_program_alone(moves):
    rows = np.array([ids_of(text) for text in (EXAMPLE, *OTHERS)] * 50)
    is_new = np.arange(200) % 7 == 0
    results, ends = [], []
    for threads in (1, 2):
        streams = streams_of(200)
        results.append(propose_programs(rows, is_new, streams, moves, threads=threads))
        ends.append(streams)
    assert np.array_equal(*results)
    assert np.array_equal(*ends)
    assert (ends[0] != streams_of(200)).all()
    order = np.random.default_rng(1).permutation(200)[:60]
    some = propose_programs(rows[order], is_new[order], streams_of(200)[order], moves)
    assert np.array_equal(some, results[0][order])


def test_a_subtree_can_be_any_part_of_a_program():
    tree = tree_of(EXAMPLE)
    found = mutants(EXAMPLE, Move.SUBTREE, 20_000) - {tree}

    def other_kind(s):  # the statement is another; its neighbours stay
        return (m for m in [("act", a) for a in range(5)] if m != s)

    parts = relabelled(tree, other_kind) | relabelled(tree, points) | relabelled(tree, negated)
    assert parts <= found

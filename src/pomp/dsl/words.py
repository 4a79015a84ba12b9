"""Describe programs in plain words: what the agent does, as sentences without their subject."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pomp.dsl.syntax import Act, Body, Condition, IfElse, Not, Program, Repeat, Statement, While
from pomp.dsl.vocabulary import Action, Perception

DEEPEST = 6  # levels of loops and conditions that are told

_ACTIONS = {
    Action.MOVE: "moves",
    Action.TURN_LEFT: "turns left",
    Action.TURN_RIGHT: "turns right",
    Action.PICK_MARKER: "picks a marker up",
    Action.PUT_MARKER: "puts a marker down",
}
_PERCEPTIONS = {
    Perception.FRONT_IS_CLEAR: ("the front is clear", "the front is blocked"),
    Perception.LEFT_IS_CLEAR: ("the left is clear", "the left is blocked"),
    Perception.RIGHT_IS_CLEAR: ("the right is clear", "the right is blocked"),
    Perception.MARKERS_PRESENT: ("there is a marker here", "there is no marker here"),
    Perception.NO_MARKERS_PRESENT: ("there is no marker here", "there is a marker here"),
}
_IN_VAIN = {
    Action.MOVE: "moves against a wall and turns round",
    Action.PICK_MARKER: "picks, but there is no marker here",
    Action.PUT_MARKER: "puts, but there is no room for a marker",
}
ACTION_WORDS = tuple((_ACTIONS[one], _IN_VAIN.get(one, _ACTIONS[one])) for one in Action)
"""For each action, in the order of the actions, what it does, and what it does in vain."""
_PRONOUNS = {"there is a marker here": "there is one", "there is no marker here": "there is none"}
_NUMBERS = {1: "once", 2: "twice"}


@dataclass(frozen=True)
class _Phrase:
    """What a statement does; a plain one can stand between others without brackets."""

    text: str
    is_plain: bool = True


def describe_program(program: Program) -> str:
    """Return a program as sentences: what comes first, then each loop and what follows it."""
    sentences: list[str] = []
    for is_plain, group in groupby(_phrases(program.body, DEEPEST), lambda one: one.is_plain):
        phrases = list(group)
        if is_plain:
            text = _join(phrases)
            sentences.append(f"then {text}" if sentences else text)
        else:
            sentences += [phrase.text for phrase in phrases]
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences)


def describe_perception(perception: Perception, *, holds: bool = True) -> str:
    """Return a perception or its contrary in words, as in `the front is blocked`."""
    return _PERCEPTIONS[perception][0 if holds else 1]


def _phrases(body: Body, depth: int) -> list[_Phrase]:
    """Return a body's statements in words; equal neighbours are told once, with their number."""
    runs = [list(run) for _, run in groupby(body)]
    return [
        _describe(run[0] if len(run) == 1 else Repeat(len(run), (run[0],)), depth) for run in runs
    ]


def _describe(statement: Statement, depth: int) -> _Phrase:
    """Return a statement in words, down to so many nested levels."""
    if isinstance(statement, Act):
        return _Phrase(_ACTIONS[statement.action])
    if not depth:
        return _Phrase("does more that is nested too deeply to be told")
    act, body = _only_act(statement.body), _join(_phrases(statement.body, depth - 1))
    if isinstance(statement, Repeat):
        times = _NUMBERS.get(statement.count, f"{statement.count} times")
        return _Phrase(f"{act} {times}") if act else _Phrase(f"{times}: {body}", is_plain=False)
    holds = _condition(statement.condition)
    if isinstance(statement, IfElse):
        other = _only_act(statement.otherwise)
        if act and other:
            return _Phrase(f"{act} if {_refer(holds, act)}, else {other}")
        otherwise = _join(_phrases(statement.otherwise, depth - 1))
        return _Phrase(f"if {holds}: {body}; else: {otherwise}", is_plain=False)
    before, behind = ("while", "as long as") if isinstance(statement, While) else ("if", "if")
    if act:
        return _Phrase(f"{act} {behind} {_refer(holds, act)}")
    return _Phrase(f"{before} {holds}: {body}", is_plain=False)


def _only_act(body: Body) -> str:
    """Return the words of a body that is a single action, else nothing."""
    return _ACTIONS[body[0].action] if len(body) == 1 and isinstance(body[0], Act) else ""


def _condition(condition: Condition) -> str:
    """Return a condition in words."""
    holds = True
    while isinstance(condition, Not):
        condition, holds = condition.condition, not holds
    return describe_perception(condition.perception, holds=holds)


def _refer(condition: str, act: str) -> str:
    """Return a condition that stands behind an action: markers are not named twice."""
    return _PRONOUNS.get(condition, condition) if "marker" in act else condition


def _join(phrases: Sequence[_Phrase]) -> str:
    """Return phrases as an enumeration; among others, what is not plain stands in brackets."""
    if len(phrases) == 1:
        return phrases[0].text
    texts = [phrase.text if phrase.is_plain else f"({phrase.text})" for phrase in phrases]
    return f"{', '.join(texts[:-1])}, then {texts[-1]}"

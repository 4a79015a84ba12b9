"""Text machines: a machine of programs and rules as a file a person reads and edits.

`docs/MACHINES.md` has the grammar. Reading and printing are inverses for machines whose modes have
names; provenance alone has no place in the text.
"""

import logging
import re
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Never

from pomp.dsl.parser import parse
from pomp.dsl.printer import lines_of, print_program
from pomp.errors import (
    ConfigError,
    DataFileError,
    MachineSyntaxError,
    PompError,
    ProgramSyntaxError,
)
from pomp.folders import write_text
from pomp.machine.config import MAX_MODES, EpisodeConfig
from pomp.machine.policy import NAME, RESERVED, STOP, ProgramMachine
from pomp.machine.sensors import PERCEPTIONS_ONLY, WITH_COMPASS, check_condition
from pomp.machine.transitions import DecisionList, Rule
from pomp.tasks.catalog import find_task

LOGGER = logging.getLogger("pomp")
SUFFIX = ".machine"
MAX_BYTES = 1 << 20
_WIDE = 100  # columns of a line with a program
_EPISODE = {field.name: field.default for field in fields(EpisodeConfig)}
_SETTINGS = ("sensors", "variant", "option", "size", *_EPISODE)
_SWITCH = {"off": False, "on": True}
_ARROW = "->"


def parse_machine(text: str, file: str = "text") -> ProgramMachine:
    """Read a machine from its text.

    Args:
        text: the whole file.
        file: what errors call it.

    Raises:
        MachineSyntaxError: the text is no machine; carries the place.
    """
    return _Reader(text, file).machine()


def read_machine(path: str | Path) -> ProgramMachine:
    """Read a machine's file; modes that cannot be reached are told to the logger `pomp`.

    Raises:
        MachineSyntaxError: the text is no machine; carries the place.
        DataFileError: the file cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataFileError(f"cannot read '{path}': {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise DataFileError(f"'{path}' has over {MAX_BYTES} bytes: too long for a machine")
    try:
        reader = _Reader(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise DataFileError(f"'{path}' is not UTF-8 text (byte {error.start})") from error
    machine = reader.machine()
    for number in unreachable_modes(machine):
        name = reader.modes[number].name
        place = f"{path}:{name.line}:{name.column}"
        LOGGER.warning("%s: no rule leads from the start to mode '%s'", place, name.text)
    return machine


def write_machine(machine: ProgramMachine, path: str | Path) -> None:
    """Write a machine as text.

    Raises:
        ConfigError: it has no rules.
        OutputError: it cannot be written there.
    """
    write_text(Path(path), print_machine(machine))


def unreachable_modes(machine: ProgramMachine) -> list[int]:
    """Modes to which no rules lead from the start, whatever is sensed."""
    rules = _rules_of(machine)
    reached, pending = set[int](), list(rules.start)
    while pending:
        to = pending.pop().to
        if to is not None and to not in reached:
            reached.add(to)
            pending += rules.after[to]
    return [number for number in range(len(machine.modes)) if number not in reached]


def print_machine(machine: ProgramMachine) -> str:
    """The text of a machine with rules; modes without names get `mode1`, `mode2`, ...

    Raises:
        ConfigError: it has a network, no rules.
    """
    rules = _rules_of(machine)
    names = machine.names or tuple(f"mode{n + 1}" for n in range(len(machine.modes)))
    targets: dict[int | None, str] = {None: STOP, **dict(enumerate(names))}
    lines = [*_comment_lines(machine, ""), f"machine {machine.task}", f"sensors {rules.sensors}"]
    if machine.variant is not None:
        lines.append(f"variant {machine.variant}")
    lines += [f"option {name} {value}" for name, value in machine.options.items()]
    if machine.size is not None:
        lines.append("size {}x{}".format(*machine.size))
    lines += _episode_lines(machine.episode)
    start = [_print_rule(rule, targets) for rule in rules.start]
    start = [f"start {one}" for one in start] if len(start) > 1 else []
    lines += start or [f"start {targets[rules.start[0].to]}"]
    for name, mode, after in zip(names, machine.modes, rules.after, strict=True):
        lines += ["", *_comment_lines(machine, name), *_program_lines(name, mode)]
        lines += [f"  {_print_rule(rule, targets)}" for rule in after]
    return "\n".join(lines) + "\n"


def _rules_of(machine: ProgramMachine) -> DecisionList:
    if not isinstance(machine.transition, DecisionList):
        kind = machine.transition.kind
        raise ConfigError(f"only a machine with rules is a text; this one's transitions: {kind}")
    return machine.transition


def _comment_lines(machine: ProgramMachine, about: str) -> list[str]:
    return [f"# {line}".rstrip() for line in machine.comments.get(about, ())]


def _episode_lines(episode: EpisodeConfig) -> list[str]:
    given = {name: getattr(episode, name) for name in _EPISODE}
    changed = {name: value for name, value in given.items() if value != _EPISODE[name]}
    return [
        f"{name} {('off', 'on')[value] if isinstance(value, bool) else value}"
        for name, value in changed.items()
    ]


def _program_lines(name: str, mode: str) -> list[str]:
    line = f"mode {name}: {mode}"
    if len(line) <= _WIDE:
        return [line]
    return [f"mode {name}:", *(f"    {part}" for part in lines_of(parse(mode)))]


def _print_rule(rule: Rule, targets: dict[int | None, str]) -> str:
    head = f"if {' and '.join(rule.when)}" if rule.when else "else"
    return f"{head} {_ARROW} {targets[rule.to]}"


@dataclass(frozen=True)
class _Word:
    """A word and where it stands, both counted from 1."""

    text: str
    line: int
    column: int


@dataclass
class _RuleText:
    """A rule as it was read."""

    when: tuple[str, ...]
    to: _Word


class _ModeText:
    """A mode as it was read."""

    def __init__(self, name: _Word, colon: _Word) -> None:
        self.name, self.colon = name, colon
        self.program: list[_Word] = []
        self.rules: list[_RuleText] = []


class _Reader:
    """Reads a text line by line; the first word says what a line is."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = [line.rstrip() for line in text.split("\n")]
        self.task: _Word | None = None
        self.settings: dict[str, _Word] = {}
        self.options: dict[str, _Word] = {}
        self.start: list[_RuleText] = []
        self.modes: list[_ModeText] = []
        self.comments: dict[str, tuple[str, ...]] = {}

    def fail(self, word: _Word, reason: str) -> Never:
        line = self.lines[word.line - 1]
        raise MachineSyntaxError(self.file, word.line, word.column, line, reason)

    def machine(self) -> ProgramMachine:
        """Read all of it."""
        remarks: list[str] = []
        for number, line in enumerate(self.lines, start=1):
            content, sign, remark = line.partition("#")
            words = [_Word(found[0], number, found.start() + 1)
                     for found in re.finditer(r"\S+", content)]  # fmt: skip
            if words:
                self.read_line(words, tuple(remarks))
                remarks = []
            elif sign:
                remarks.append(remark.removeprefix(" "))
        if self.task is None:
            self.fail(_Word("", 1, 1), "the text holds no machine: expected 'machine TASK'")
        return self.build(self.task)

    def read_line(self, words: list[_Word], remarks: tuple[str, ...]) -> None:
        first = words[0].text
        if self.task is None or first == "machine":
            self.read_task(words, remarks)
        elif first in _SETTINGS:
            self.read_setting(words)
        elif first == "start":
            self.read_start(words)
        elif first == "mode":
            self.read_mode(words, remarks)
        elif first in ("if", "else"):
            if not self.modes:
                self.fail(words[0], f"'{first}' stands below a mode; expected 'start' or 'mode'")
            self.add_rule(words, self.modes[-1].rules)
        elif self.modes and not self.modes[-1].rules:
            self.modes[-1].program += words
        else:
            expected = "'if', 'else' or 'mode'" if self.modes else "'start' or 'mode'"
            hint = _suggest(first, (*_SETTINGS, "start", "mode", "if", "else"))
            self.fail(words[0], f"expected {expected}, got '{_short(first)}'{hint}")

    def read_task(self, words: list[_Word], remarks: tuple[str, ...]) -> None:
        if words[0].text != "machine":
            self.fail(words[0], f"expected 'machine TASK' first, got '{_short(words[0].text)}'")
        if self.task is not None:
            self.fail(words[0], "a text holds one machine; 'machine' stands here a second time")
        self.task = self.expect(words, 1, "the task's name")
        self.expect_end(words, 2)
        if remarks:
            self.comments[""] = remarks

    def read_setting(self, words: list[_Word]) -> None:
        name = words[0].text
        if self.modes:
            self.fail(words[0], f"'{name}' stands before the first mode")
        key = self.expect(words, 1, f"a value of '{name}'")
        known, place = self.settings, 1
        if name == "option":
            name, known, place = key.text, self.options, 2
        elif name == "sensors" and len(words) > 2:
            joined = " ".join(word.text for word in words[1:])
            words = [words[0], _Word(joined, key.line, key.column)]
        if name in known:
            self.fail(words[0], f"'{_short(name)}' is given a second time")
        known[name] = self.expect(words, place, f"a value of '{_short(name)}'")
        self.expect_end(words, place + 1)

    def read_start(self, words: list[_Word]) -> None:
        target = self.expect(words, 1, "a mode's name, 'if' or 'else'")
        if target.text in ("if", "else"):
            self.add_rule(words[1:], self.start)
            return
        if self.start:
            self.fail(words[0], "'start' is given a second time")
        self.expect_end(words, 2)
        self.start.append(_RuleText((), target))

    def read_mode(self, words: list[_Word], remarks: tuple[str, ...]) -> None:
        name, place = self.expect(words, 1, "the mode's name"), 2
        colon = self.after(name)
        if name.text.endswith(":"):
            name = _Word(name.text[:-1], name.line, name.column)
        else:
            colon, place = self.expect(words, 2, f"':' after '{_short(name.text)}'"), 3
            if colon.text != ":":
                self.fail(colon, f"expected ':' after '{_short(name.text)}'")
        if not NAME.fullmatch(name.text) or name.text in RESERVED:
            reason = "has letters, digits, - and _ and begins with a letter"
            if name.text in RESERVED:
                reason = f"is none of {', '.join(RESERVED)}"
            self.fail(name, f"a mode's name {reason}, got '{_short(name.text)}'")
        if any(mode.name.text == name.text for mode in self.modes):
            self.fail(name, f"mode '{_short(name.text)}' is there already")
        if len(self.modes) == MAX_MODES:
            self.fail(name, f"a machine has at most {MAX_MODES} modes")
        self.modes.append(_ModeText(name, self.after(colon) if place == 3 else colon))
        self.modes[-1].program += words[place:]
        if remarks:
            self.comments[name.text] = remarks

    def add_rule(self, words: list[_Word], rules: list[_RuleText]) -> None:
        """Read `if CONDITION and ... -> MODE` or `else -> MODE`."""
        if rules and not rules[-1].when:
            self.fail(words[0], "no rule can fire behind 'else'")
        arrow = next((n for n, word in enumerate(words) if word.text == _ARROW), len(words))
        conditions = self.read_conditions(words[0], words[1:arrow])
        self.expect(words, arrow, f"'{_ARROW}' and a mode's name")
        target = self.expect(words, arrow + 1, "a mode's name")
        self.expect_end(words, arrow + 2)
        rules.append(_RuleText(conditions, target))

    def read_conditions(self, keyword: _Word, words: list[_Word]) -> tuple[str, ...]:
        if keyword.text == "else":
            if words:
                self.fail(words[0], f"expected '{_ARROW}', got '{_short(words[0].text)}'")
            return ()
        found, last = list[str](), keyword
        while True:
            end = next((n for n, word in enumerate(words) if word.text == "and"), len(words))
            if not end:
                self.fail(self.after(last), "expected a condition")
            condition = " ".join(word.text for word in words[:end])
            self.check(words[0], check_condition, condition)
            found.append(condition)
            if end == len(words):
                return tuple(found)
            last, words = words[end], words[end + 1 :]

    def expect(self, words: list[_Word], place: int, what: str) -> _Word:
        if place >= len(words):
            self.fail(self.after(words[-1]), f"expected {what}")
        return words[place]

    def expect_end(self, words: list[_Word], place: int) -> None:
        if place < len(words):
            self.fail(words[place], f"expected the line's end, got '{_short(words[place].text)}'")

    def after(self, word: _Word) -> _Word:
        """The place behind a word."""
        return _Word("", word.line, word.column + len(word.text))

    def check(self, word: _Word, call: Any, *given: Any) -> Any:
        """The result of a call, whose errors belong to a word."""
        try:
            return call(*given)
        except PompError as error:
            self.fail(word, str(error))

    def build(self, task: _Word) -> ProgramMachine:
        """All that was read, checked part by part, so that errors have a place."""
        if not self.modes:
            self.fail(task, "the machine has no mode")
        if not self.start:
            self.fail(task, "the machine has no start: expected a line 'start MODE'")
        if self.start[-1].when:
            place = self.start[-1].to
            self.fail(place, "the start has no default: expected 'start else -> MODE' behind it")
        for mode in self.modes:
            if not mode.rules or mode.rules[-1].when:
                name = mode.name.text
                self.fail(mode.name, f"mode '{name}' has no default: expected 'else -> MODE'")
        variant, options, size = self.read_task_settings(task)
        rules = DecisionList(
            self.resolve(self.start), tuple(self.resolve(mode.rules) for mode in self.modes)
        )
        self.check_sensors(rules)
        return ProgramMachine(
            task=task.text,
            modes=tuple(self.read_program(mode) for mode in self.modes),
            transition=rules,
            variant=variant,
            options=options,
            size=size,
            episode=self.read_episode(),
            names=tuple(mode.name.text for mode in self.modes),
            comments=self.comments,
        )

    def read_task_settings(
        self, task: _Word
    ) -> tuple[str | None, dict[str, str], tuple[int, int] | None]:
        """The variant, the options and the size, each tried as soon as it is known."""
        configure = self.check(task, find_task, task.text).configure
        variant, options, size = None, dict[str, str](), None
        if word := self.settings.get("variant"):
            variant = word.text
            self.check(word, configure, variant)
        for name, word in self.options.items():
            options[name] = word.text
            self.check(word, configure, variant, options)
        if word := self.settings.get("size"):
            found = re.fullmatch("([0-9]{1,4})x([0-9]{1,4})", word.text)
            if not found:
                self.fail(word, f"a size is rows x columns, as 8x8, got '{_short(word.text)}'")
            size = int(found[1]), int(found[2])
        self.check(word or task, configure, variant, options, size)
        return variant, options, size

    def read_episode(self) -> EpisodeConfig:
        given: dict[str, Any] = {}
        for name, default in _EPISODE.items():
            if not (word := self.settings.get(name)):
                continue
            given[name] = word.text
            if isinstance(default, bool):
                if word.text not in _SWITCH:
                    self.fail(word, f"{name} is 'on' or 'off', got '{_short(word.text)}'")
                given[name] = _SWITCH[word.text]
            elif isinstance(default, int):
                if not re.fullmatch("[0-9]{1,9}", word.text):
                    self.fail(word, f"{name} is a whole number, got '{_short(word.text)}'")
                given[name] = int(word.text)
            self.check(word, lambda: EpisodeConfig(**given))
        return EpisodeConfig(**given)

    def resolve(self, rules: list[_RuleText]) -> tuple[Rule, ...]:
        """Rules whose targets are numbers."""
        numbers = {mode.name.text: number for number, mode in enumerate(self.modes)}
        found = []
        for rule in rules:
            name = rule.to.text
            if name != STOP and name not in numbers:
                hint = _suggest(name, (*numbers, STOP))
                self.fail(rule.to, f"unknown mode '{_short(name)}'{hint}")
            found.append(Rule(numbers.get(name), rule.when))
        return tuple(found)

    def check_sensors(self, rules: DecisionList) -> None:
        word = self.settings.get("sensors")
        if word and word.text not in (PERCEPTIONS_ONLY, WITH_COMPASS):
            expected = f"'{PERCEPTIONS_ONLY}' or '{WITH_COMPASS}'"
            self.fail(word, f"sensors are {expected}, got '{_short(word.text)}'")
        if word and word.text == PERCEPTIONS_ONLY != rules.sensors:
            self.fail(word, f"'{PERCEPTIONS_ONLY}' is not true: a rule asks where a marker is")

    def read_program(self, mode: _ModeText) -> str:
        try:
            return print_program(parse(" ".join(word.text for word in mode.program)))
        except ProgramSyntaxError as error:
            words = mode.program
            behind = self.after(words[-1]) if words else mode.colon
            place = words[error.position] if error.position < len(words) else behind
            self.fail(place, f"mode '{mode.name.text}': {error.reason}")


def _suggest(name: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f". Did you mean '{close[0]}'?" if close else ""


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."

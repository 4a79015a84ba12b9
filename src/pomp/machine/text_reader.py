"""Reads the text of a machine; whatever is wrong in it is told with its place."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Never, TypeVar

from pomp.core.errors import (
    MachineSyntaxError,
    PompError,
    ProgramSyntaxError,
    UntrustedModuleError,
    abridge,
)
from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.karel.sensor_set import COUNTING, SHIPPED, SensorSet, find_sensor
from pomp.karel.sensors import COMPASS, Sensor
from pomp.machine.config import MAX_MODES, EpisodeConfig
from pomp.machine.policy import NAME, RESERVED, STOP, ProgramMachine
from pomp.machine.sensors import AND, PERCEPTIONS_ONLY, WITH, check_condition
from pomp.machine.transitions import DecisionList, Rule
from pomp.tasks.catalog import find_task
from pomp.tasks.task import Task

ARROW = "->"
_EPISODE = {field.name: field.default for field in fields(EpisodeConfig)}
_SETTINGS = ("sensors", "sensor", "variant", "option", "size", *_EPISODE)
_SWITCH = {"off": False, "on": True}

T = TypeVar("T")


@dataclass(frozen=True)
class Word:
    """A word and where it stands, both counted from 1."""

    text: str
    line: int
    column: int


@dataclass(frozen=True)
class RuleText:
    """A rule as it was read."""

    when: tuple[str, ...]
    to: Word


@dataclass
class ModeText:
    """A mode as it was read; its program begins at a place."""

    name: Word
    begins: Word
    program: list[Word] = field(default_factory=list)
    rules: list[RuleText] = field(default_factory=list)


class TextReader:
    """Reads a text line by line; the first word says what a line is.

    Attributes:
        modes: those read so far.
    """

    def __init__(self, text: str, file: str, allow: Collection[str]) -> None:
        self._file, self._allow = file, allow
        self._lines = [line.rstrip() for line in text.split("\n")]
        self._task: Word | None = None
        self._settings: dict[str, Word] = {}
        self._options: dict[str, Word] = {}
        self._own: list[tuple[Word, Sensor]] = []
        self._known = SHIPPED
        self._start: list[RuleText] = []
        self.modes: list[ModeText] = []
        self._comments: dict[str, tuple[str, ...]] = {}

    def _fail(self, word: Word, reason: str) -> Never:
        """Refuse the text because of a word."""
        line = self._lines[word.line - 1]
        raise MachineSyntaxError(self._file, word.line, word.column, line, reason)

    def machine(self) -> ProgramMachine:
        """Read all of it."""
        remarks: list[str] = []
        for number, line in enumerate(self._lines, start=1):
            content, sign, remark = line.partition("#")
            words = [Word(found[0], number, found.start() + 1)
                     for found in re.finditer(r"\S+", content)]  # fmt: skip
            if words:
                self._read_line(words, tuple(remarks))
                remarks = []
            elif sign:
                remarks.append(remark.removeprefix(" "))
        if self._task is None:
            self._fail(Word("", 1, 1), "the text holds no machine: expected 'machine TASK'")
        return self._build(self._task)

    def _read_line(self, words: list[Word], remarks: tuple[str, ...]) -> None:
        first = words[0].text
        if self._task is None or first == "machine":
            self._read_task(words, remarks)
        elif first in _SETTINGS:
            self._read_setting(words)
        elif first == "start":
            self._read_start(words)
        elif first == "mode":
            self._read_mode(words, remarks)
        elif first in ("if", "else"):
            if not self.modes:
                self._fail(words[0], f"'{first}' stands below a mode; expected 'start' or 'mode'")
            self._add_rule(words, self.modes[-1].rules)
        elif self.modes and not self.modes[-1].rules:
            self.modes[-1].program += words
        else:
            expected = "'if', 'else' or 'mode'" if self.modes else "'start' or 'mode'"
            hint = _suggest(first, (*_SETTINGS, "start", "mode", "if", "else"))
            self._fail(words[0], f"expected {expected}, got '{abridge(first)}'{hint}")

    def _read_task(self, words: list[Word], remarks: tuple[str, ...]) -> None:
        if words[0].text != "machine":
            self._fail(words[0], f"expected 'machine TASK' first, got '{abridge(words[0].text)}'")
        if self._task is not None:
            self._fail(words[0], "a text holds one machine; 'machine' stands here a second time")
        self._task = self._expect(words, 1, "the task's name")
        self._expect_end(words, 2)
        if remarks:
            self._comments[""] = remarks

    def _read_setting(self, words: list[Word]) -> None:
        name = words[0].text
        if self.modes:
            self._fail(words[0], f"'{name}' stands before the first mode")
        key = self._expect(words, 1, f"a value of '{name}'")
        known, place = self._settings, 1
        if name == "sensor":
            self._expect_end(words, 2)
            self._own.append((key, self._check(key, find_sensor, key.text, self._allow)))
            return
        if name == "option":
            name, known, place = key.text, self._options, 2
        elif name == "sensors" and len(words) > 2:
            joined = " ".join(word.text for word in words[1:])
            words = [words[0], Word(joined, key.line, key.column)]
        if name in known:
            self._fail(words[0], f"'{abridge(name)}' is given a second time")
        known[name] = self._expect(words, place, f"a value of '{abridge(name)}'")
        self._expect_end(words, place + 1)

    def _read_start(self, words: list[Word]) -> None:
        target = self._expect(words, 1, "a mode's name, 'if' or 'else'")
        if target.text in ("if", "else"):
            self._add_rule(words[1:], self._start)
            return
        if self._start:
            self._fail(words[0], "'start' is given a second time")
        self._expect_end(words, 2)
        self._start.append(RuleText((), target))

    def _read_mode(self, words: list[Word], remarks: tuple[str, ...]) -> None:
        name, place = self._expect(words, 1, "the mode's name"), 2
        colon = name
        if name.text.endswith(":"):
            name = Word(name.text[:-1], name.line, name.column)
        else:
            colon, place = self._expect(words, 2, f"':' after '{abridge(name.text)}'"), 3
            if colon.text != ":":
                self._fail(colon, f"expected ':' after '{abridge(name.text)}'")
        if not NAME.fullmatch(name.text) or name.text in RESERVED:
            reason = "has letters, digits, - and _ and begins with a letter"
            if name.text in RESERVED:
                reason = f"is none of {', '.join(RESERVED)}"
            self._fail(name, f"a mode's name {reason}, got '{abridge(name.text)}'")
        if any(mode.name.text == name.text for mode in self.modes):
            self._fail(name, f"mode '{abridge(name.text)}' is there already")
        if len(self.modes) == MAX_MODES:
            self._fail(name, f"a machine has at most {MAX_MODES} modes")
        self.modes.append(ModeText(name, self._after(colon), words[place:]))
        if remarks:
            self._comments[name.text] = remarks

    def _add_rule(self, words: list[Word], rules: list[RuleText]) -> None:
        """Read `if CONDITION and ... -> MODE` or `else -> MODE`."""
        if rules and not rules[-1].when:
            self._fail(words[0], "no rule can fire behind 'else'")
        arrow = next((n for n, word in enumerate(words) if word.text == ARROW), len(words))
        if len(words) == 1 or words[0].text != "else":  # else what stands there is told
            self._expect(words, arrow, f"'{ARROW}' and a mode's name")
        conditions = self._read_conditions(words[0], words[1:arrow])
        target = self._expect(words, arrow + 1, "a mode's name")
        self._expect_end(words, arrow + 2)
        rules.append(RuleText(conditions, target))

    def _read_conditions(self, keyword: Word, words: list[Word]) -> tuple[str, ...]:
        if keyword.text == "else":
            if words:
                self._fail(words[0], f"expected '{ARROW}', got '{abridge(words[0].text)}'")
            return ()
        found, last = list[str](), keyword
        while True:
            end = next((n for n, word in enumerate(words) if word.text == "and"), len(words))
            if not end:
                self._fail(self._after(last), "expected a condition")
            condition = " ".join(word.text for word in words[:end])
            self._check(words[0], check_condition, condition, self._known_sensors())
            found.append(condition)
            if end == len(words):
                return tuple(found)
            last, words = words[end], words[end + 1 :]

    def _known_sensors(self) -> SensorSet:
        """The sensors that rules may ask for, as far as the text was read."""
        if len(self._own) > len(self._known.own):
            own = tuple(sensor for _, sensor in self._own)
            self._known = self._check(self._own[-1][0], SensorSet, own)
        return self._known

    def _expect(self, words: list[Word], place: int, what: str) -> Word:
        if place >= len(words):
            self._fail(self._after(words[-1]), f"expected {what}")
        return words[place]

    def _expect_end(self, words: list[Word], place: int) -> None:
        if place < len(words):
            self._fail(words[place], f"expected the line's end, got '{abridge(words[place].text)}'")

    def _after(self, word: Word) -> Word:
        """The place behind a word."""
        return Word("", word.line, word.column + len(word.text))

    def _check(self, word: Word, call: Callable[..., T], *given: object) -> T:
        """The result of a call, whose errors belong to a word."""
        try:
            return call(*given)
        except UntrustedModuleError:
            raise
        except PompError as error:
            self._fail(word, str(error))

    def _build(self, task: Word) -> ProgramMachine:
        """All that was read, checked part by part, so that errors have a place."""
        if not self.modes:
            self._fail(task, "the machine has no mode")
        if not self._start:
            self._fail(task, "the machine has no start: expected a line 'start MODE'")
        if self._start[-1].when:
            place = self._start[-1].to
            self._fail(place, "the start has no default: expected 'start else -> MODE' behind it")
        for mode in self.modes:
            if not mode.rules or mode.rules[-1].when:
                name = mode.name.text
                self._fail(mode.name, f"mode '{name}' has no default: expected 'else -> MODE'")
        found = self._check(task, find_task, task.text, self._allow)
        variant, options, size = self._read_task_settings(task, found)
        rules = DecisionList(
            self._resolve(self._start),
            tuple(self._resolve(mode.rules) for mode in self.modes),
            self._known_sensors().own,
        )
        self._check_sensors(rules)
        return ProgramMachine(
            task=found,
            modes=tuple(self._read_program(mode) for mode in self.modes),
            transition=rules,
            variant=variant,
            options=options,
            size=size,
            episode=self._read_episode(),
            names=tuple(mode.name.text for mode in self.modes),
            comments=self._comments,
        )

    def _read_task_settings(
        self, named: Word, task: Task
    ) -> tuple[str | None, dict[str, str], tuple[int, int] | None]:
        """Read the variant, the options and the size, each tried as soon as it is known."""
        configure = task.configure
        variant, options, size = None, dict[str, str](), None
        if word := self._settings.get("variant"):
            variant = word.text
            self._check(word, configure, variant)
        for name, word in self._options.items():
            options[name] = word.text
            self._check(word, configure, variant, options)
        if size_word := self._settings.get("size"):
            found = re.fullmatch("([0-9]{1,4})x([0-9]{1,4})", size_word.text)
            if not found:
                shown = abridge(size_word.text)
                self._fail(size_word, f"a size is rows x columns, as 8x8, got '{shown}'")
            size = int(found[1]), int(found[2])
        self._check(size_word or named, configure, variant, options, size)
        return variant, options, size

    def _read_episode(self) -> EpisodeConfig:
        given: dict[str, Any] = {}
        for name, default in _EPISODE.items():
            if not (word := self._settings.get(name)):
                continue
            given[name] = word.text
            if isinstance(default, bool):
                if word.text not in _SWITCH:
                    self._fail(word, f"{name} is 'on' or 'off', got '{abridge(word.text)}'")
                given[name] = _SWITCH[word.text]
            elif isinstance(default, int):
                if not re.fullmatch("[0-9]{1,9}", word.text):
                    self._fail(word, f"{name} is a whole number, got '{abridge(word.text)}'")
                given[name] = int(word.text)
            self._check(word, lambda: EpisodeConfig(**given))
        return EpisodeConfig(**given)

    def _resolve(self, rules: list[RuleText]) -> tuple[Rule, ...]:
        """Rules whose targets are numbers."""
        numbers = {mode.name.text: number for number, mode in enumerate(self.modes)}
        found = []
        for rule in rules:
            name = rule.to.text
            if name != STOP and name not in numbers:
                hint = _suggest(name, (*numbers, STOP))
                self._fail(rule.to, f"unknown mode '{abridge(name)}'{hint}")
            found.append(Rule(numbers.get(name), rule.when))
        return tuple(found)

    def _check_sensors(self, rules: DecisionList) -> None:
        if not (word := self._settings.get("sensors")):
            return
        known = (COMPASS, COUNTING, *(sensor.name for sensor in rules.own))
        told = word.text.removeprefix(WITH).split(AND) if word.text != PERCEPTIONS_ONLY else []
        if told and (not word.text.startswith(WITH) or not set(told) <= set(known)):
            expected = f"'{PERCEPTIONS_ONLY}' or '{WITH}{AND.join(known)}'"
            self._fail(word, f"sensors are {expected}, got '{abridge(word.text)}'")
        for name in rules.extras:
            if name not in told:
                asked = {COMPASS: "where a marker is", COUNTING: "how many there are"}.get(
                    name, f"for '{name}'"
                )
                self._fail(word, f"'{abridge(word.text)}' is not true: a rule asks {asked}")

    def _read_program(self, mode: ModeText) -> str:
        try:
            return print_program(parse(" ".join(word.text for word in mode.program)))
        except ProgramSyntaxError as error:
            words = mode.program
            behind = self._after(words[-1]) if words else mode.begins
            place = words[error.position] if error.position < len(words) else behind
            self._fail(place, f"mode '{mode.name.text}': {error.reason}")


def _suggest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f". Did you mean '{close[0]}'?" if close else ""

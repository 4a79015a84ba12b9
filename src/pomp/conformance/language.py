"""Recorded answers of the reference's parser."""

from itertools import zip_longest
from typing import Any

import numpy as np

from pomp.conformance.report import FileReport
from pomp.core.errors import ProgramSyntaxError
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.dsl.vocabulary import LEAPS


def check_language(content: dict[str, Any], report: FileReport) -> None:
    """Check vocabulary, printed programs, and what the reference's parser said of damaged ones."""
    _check_vocabulary(content["vocabulary"], report)
    _check_texts(content["programs"], report)
    wrong = []
    rows = [entry["tokens"] for entry in content["syntax"]]
    ids = np.full((len(rows), max(map(len, rows), default=1)), LEAPS.pad, np.int64)
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = tokens
    compiled = compile_ids(ids).valid
    for index, entry in enumerate(content["syntax"]):
        expected = bool(entry["full_program"])
        for reader, accepts in (("parser", _parses(entry["text"])), ("compiler", compiled[index])):
            if accepts != expected:
                verb = "accepted" if accepts else "refused"
                wrong.append((index, f"the {reader} {verb} '{entry['text']}'"))
    report.add("syntax", len(rows), wrong)


def _parses(text: str) -> bool:
    try:
        parse(text)
    except ProgramSyntaxError:
        return False
    return True


def _check_vocabulary(vocabulary: list[str], report: FileReport) -> None:
    wrong = [
        (index, f"expected token '{expected}', got '{token}'")
        for index, (expected, token) in enumerate(zip_longest(vocabulary, LEAPS.tokens[:-1]))
        if expected != token
    ]
    report.add("tokens", len(vocabulary), wrong)


def _check_texts(entries: list[dict[str, Any]], report: FileReport) -> None:
    wrong = []
    for index, entry in enumerate(entries):
        if not _parses(entry["text"]):
            wrong.append((index, f"'{entry['text']}' does not parse"))
        elif print_program(parse(entry["text"])) != entry["text"]:
            wrong.append((index, f"'{entry['text']}' is printed differently"))
        elif LEAPS.encode(entry["text"].split()) != entry["tokens"]:
            wrong.append((index, f"'{entry['text']}' has other token ids"))
    report.add("programs", len(entries), wrong)


def check_programs(content: dict[str, Any], report: FileReport) -> None:
    """Check the programs that recordings refer to."""
    _check_vocabulary(content["vocabulary"], report)
    for entries in content["tasks"].values():
        _check_texts(entries, report)

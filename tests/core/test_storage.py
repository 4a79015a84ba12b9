"""Files read without trust: what may be read at all, JSON, arrays, and checksums."""

import json
import os
import random

import numpy as np
import pytest

from pomp.core.errors import DataFileError, PompError, TooLargeError
from pomp.core.resources import check_memory
from pomp.core.schemas import (
    FREE,
    Array,
    Flag,
    Listed,
    Maybe,
    Named,
    Number,
    OneOf,
    Record,
    Row,
    Text,
    Whole,
    check_arrays,
)
from pomp.core.storage import (
    pack_arrays,
    parse_json,
    read_arrays,
    read_bytes,
    read_json,
    unpack_arrays,
    with_checksum,
    write_arrays,
)
from pomp.core.texts import escape_html, visible

ARRAYS = {"tokens": np.arange(12, dtype=np.uint8).reshape(3, 4), "step": np.float32([2.5])}
HEADER = {"format": 1, "card": {"name": "é", "loss": [1.5, None]}}


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "nothing"])
def test_only_regular_files_are_read(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a device":
        path = "/dev/zero"
    with pytest.raises(DataFileError, match=r"regular file|is a folder|does not exist"):
        read_bytes(path, "machine")


def test_a_file_that_is_too_long_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 11)
    assert read_bytes(tmp_path / "file", "machine", 11) == b"x" * 11
    with pytest.raises(DataFileError, match="over 10 bytes: too long for a machine"):
        read_bytes(tmp_path / "file", "machine", 10)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 30 + "]" * 30, "nested at most 24 times"),
        ('{"a": 1, "a": 2}', "a name comes twice"),
        ('{"a": "\\ud800"}', "half a character"),
        ('{"a": ' + "9" * 5000 + "}", "digit"),
        ('{"a": 1', "Expecting"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_none_or_could_do_harm_is_refused(tmp_path, text, says):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(DataFileError, match=says) as raised:
        read_json(path, "machine")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (Whole(0, 9), [0, 9], [-1, 10, 1e9, True, 2.0, "3", None, []]),
        (Number(0.0, 1.0), [0, 0.5, 1], [float("nan"), float("inf"), -0.1, True, "0.5"]),
        (Number(is_finite=False), [float("-inf"), 0], [float("nan"), None]),
        (Text(least=1, most=3), ["a", "abc"], ["", "abcd", 5, None]),
        (Flag(), [True, False], [0, 1, "true", None]),
        (OneOf(("cpu", 1)), ["cpu", 1], ["gpu", True, 1.0, []]),
        (Maybe(Flag()), [None, True], [0]),
        (Listed(Whole(), 1, 2), [[1], [1, 2]], [[], [1, 2, 3], [-1], "12", {"a": 1}]),
        (Row((Whole(), Text())), [[1, "a"]], [[1], ["a", 1], [1, "a", 2], None]),
        (Named(Whole(), most=1), [{}, {"a": 1}], [{"a": "b"}, {"a": 1, "b": 2}, [1]]),
        (Record({"a": Whole()}, {"b": Flag()}), [{"a": 1}, {"a": 1, "b": True}],
         [{}, {"b": True}, {"a": 1, "c": 2}, {"a": "x"}, [1], None]),
        (Record({}, is_open=True), [{}, {"c": [1]}], [5]),
    ],
)  # fmt: skip
def test_a_schema_takes_what_it_says_and_nothing_else(schema, good, bad):
    for value in good:
        schema.check(value)
    for value in bad:
        with pytest.raises(DataFileError, match="must be"):
            schema.check(value, "here")


def test_an_error_of_a_schema_names_the_place():
    schema = Record({"modes": Listed(Record({"program": Text()}))})
    with pytest.raises(DataFileError, match=r"^modes\[1\]\.program must be a text of .*, got 7$"):
        schema.check({"modes": [{"program": "x"}, {"program": 7}]})


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((2, 3), np.uint8), "must be int8 of shape"),
        (np.zeros((3, 2), np.int8), r"shape \(any, 3\), got int8 of shape \(3, 2\)"),
        (np.full((1, 3), 5, np.int8), "numbers from -1 to 4, got 5 to 5"),
        (np.full((1, 3), -2, np.int8), "got -2 to -2"),
    ],
)
def test_an_array_has_a_type_a_shape_and_a_range(array, says):
    schema = Array("int8", (None, 3), -1, 4)
    schema.check(np.array([[-1, 0, 4]], np.int8))
    schema.check(np.empty((0, 3), np.int8))
    with pytest.raises(DataFileError, match=says):
        schema.check(array, "it")


def test_nan_is_no_number_unless_it_may_be_missing():
    numbers = np.array([1.0, np.nan])
    with pytest.raises(DataFileError, match="must be"):
        Array("float64", (2,)).check(numbers)
    Array("float64", (2,), may_be_nan=True).check(numbers)
    with pytest.raises(DataFileError, match="finite"):
        Array("float64", (1,)).check(np.array([np.inf]))


def test_arrays_must_be_those_that_are_named():
    schemas = {"a": Array("int64", (1,))}
    check_arrays({"a": np.zeros(1, np.int64)}, schemas)
    for arrays in ({}, {"a": np.zeros(1, np.int64), "b": np.zeros(1, np.int64)}):
        with pytest.raises(DataFileError, match=r"the array [ab] must be (there|absent)"):
            check_arrays(arrays, schemas)


def test_arrays_come_back_as_they_were_written(tmp_path):
    write_arrays(tmp_path / "file", ARRAYS, HEADER)
    arrays, header = read_arrays(tmp_path / "file", "dataset")
    assert header == HEADER
    assert {name: (one.dtype, one.tolist()) for name, one in arrays.items()} == {
        name: (one.dtype, one.tolist()) for name, one in ARRAYS.items()
    }
    assert pack_arrays(ARRAYS, HEADER) == (tmp_path / "file").read_bytes()


def test_every_flipped_bit_of_a_file_of_arrays_is_noticed():
    content = bytearray(pack_arrays(ARRAYS, HEADER))
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DataFileError):
            unpack_arrays(bytes(content))
        content[bit // 8] ^= 1 << bit % 8
    assert unpack_arrays(bytes(content))[1] == HEADER


def test_every_flipped_bit_of_a_sealed_object_is_noticed():
    values = {"format": 1, "small": 1e-05, "name": "é", "list": [1.5, None, True]}
    content = bytearray(json.dumps(with_checksum(values), indent=1).encode())
    schema = Record(dict.fromkeys(values, FREE))
    for bit in range(8 * len(content)):
        content[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):  # noqa: PT011 - whatever is noticed first
            parse_json(content.decode(errors="replace"), schema)
        content[bit // 8] ^= 1 << bit % 8
    assert parse_json(content.decode(), schema) == values


def test_a_checksum_survives_other_blanks_and_line_ends():
    values = {"a": {"b": [1, 2]}, 3: "x"}
    text = json.dumps(with_checksum(values), indent=2).replace("\n", "\r\n")
    assert parse_json(text) == {"a": {"b": [1, 2]}, "3": "x"}


def test_an_edited_object_says_how_to_take_it_on_purpose():
    values = with_checksum({"modes": 3}) | {"modes": 4}
    with pytest.raises(ValueError, match='delete its "checksum"'):
        parse_json(json.dumps(values))
    del values["checksum"]
    assert parse_json(json.dumps(values)) == {"modes": 4}
    with pytest.raises(ValueError, match="checksum"):
        parse_json(json.dumps(values), is_sealed=True)


def test_a_file_of_arrays_from_before_checksums_is_read(tmp_path):
    from safetensors.numpy import save

    (tmp_path / "old").write_bytes(save(ARRAYS, {"pomp": json.dumps(HEADER)}))
    assert read_arrays(tmp_path / "old", "embedding")[1] == HEADER


def test_text_of_strangers_cannot_steer_a_terminal():
    assert visible("\x1b[2Jgone\r\x07\u202e") == "\\x1b[2Jgone\\r\\x07\\u202e"
    assert visible("a\tb\nIñtërnâtiônàl 世界") == "a\tb\nIñtërnâtiônàl 世界"
    assert visible("\ud800").isprintable()
    assert escape_html("<b>\x1b") == "&lt;b&gt;\\x1b"
    assert str(PompError("unknown \x1b[31mtask")) == "unknown \\x1b[31mtask"


def test_random_bytes_are_no_file_of_arrays():
    draw = random.Random(0)
    for length in (0, 1, 7, 8, 9, 100, 1000):
        with pytest.raises(DataFileError):
            unpack_arrays(draw.randbytes(length))


@pytest.mark.parametrize("name", ["checksue0m", "chcksum", "\x00hecksum", "checksum ", "chec"])
def test_a_checksum_whose_name_is_damaged_is_noticed(name):
    sealed = with_checksum({"mean": 0.5, "of": [1, 2]})
    damaged = {key if key != "checksum" else name: value for key, value in sealed.items()}
    with pytest.raises(DataFileError, match="its checksum is that of something else"):
        parse_json(json.dumps(damaged))
    assert parse_json('{"mean": 0.5, "digest": "0123456789abcdef"}')["mean"] == 0.5


def test_a_limit_of_the_process_counts_as_memory(monkeypatch):
    limits = pytest.importorskip("resource")
    monkeypatch.setattr(limits, "getrlimit", lambda _: (1 << 33, limits.RLIM_INFINITY))
    with pytest.raises(TooLargeError, match="ask for at most"):
        check_memory("9 things", 9, 1 << 30)

"""Tables inside documents are those that a store gives."""

import importlib.util
from pathlib import Path

import pytest

from pomp.core import ConfigError, UnknownNameError
from pomp.experiments.reporting.documents import (
    Grid,
    GridEntry,
    GridRow,
    fill_blocks,
)
from stores import keep, seeds_of

TOOL = Path(__file__).parents[2] / "tools" / "write_tables.py"
GRID = Grid("small", ("method", "Maze"), (GridRow("CEM x|M|", (GridEntry(text="1 < 2"),)),), "So.")
TABLE = "| method | Maze |\n|---|---:|\n| CEM x\\|M\\| | 1 &lt; 2 |\n\nSo.\n"
PAGE = "# Results\n\n<!-- table {name} -->\n{inside}<!-- end -->\n\nIn a line: <!-- end -->\n"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("write_tables", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def store(tmp_path):
    return keep(tmp_path / "store", seeds_of("pomp", "Farmer", (0.6, 0.7)))


def test_what_stands_in_a_block_is_replaced_and_the_rest_stays():
    filled = PAGE.format(name="small", inside=TABLE)
    for inside in ("", "| old |\n", TABLE):
        assert fill_blocks(PAGE.format(name="small", inside=inside), {"small": GRID}) == filled
    assert fill_blocks("no block\n", {}) == "no block\n"


@pytest.mark.parametrize(
    ("page", "error", "message"),
    [
        ("<!-- table smal -->\n<!-- end -->\n", UnknownNameError, "Did you mean 'small'"),
        ("<!-- table small -->\n", ConfigError, "the table small has no end"),
        ("a\n<!-- end -->\n", ConfigError, "line 2: '<!-- end -->' ends no table"),
        ("<!-- table small -->\n<!-- table small -->\n", ConfigError, "line 2: the table small"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(page, error, message):
    with pytest.raises(error, match=message):
        fill_blocks(page, {"small": GRID})


def test_the_tool_writes_and_checks_a_page(tool, store, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(name="table2", inside=""))
    given = ["--store", str(store), str(page)]
    assert tool.main(["--check", *given]) == 1
    assert page.read_text() == PAGE.format(name="table2", inside="")
    assert tool.main(given) == 0
    assert "| POMP<br>paper | **0.65 ± 0.05**<br>0.62 ± 0.02 |" in page.read_text()
    assert tool.main(["--check", *given]) == 0
    page.write_text(page.read_text().replace("0.65", "0.66"))
    capsys.readouterr()
    assert tool.main(["--check", *given]) == 1
    assert capsys.readouterr().out == f"{page}: differs from {store}\n"


def test_the_tool_says_what_is_wrong_with_a_page(tool, store, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(name="table9", inside=""))
    assert tool.main(["--store", str(store), str(page)]) == 2
    assert "unknown table 'table9'" in capsys.readouterr().err
    assert tool.main(["--store", str(tmp_path / "none"), str(page)]) == 2


def test_a_page_without_tables_needs_no_store(tool, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Nothing.\n")
    assert tool.main(["--check", "--store", str(tmp_path / "none"), str(page)]) == 0


def test_the_tables_of_the_documents_are_those_of_the_results(tool, capsys):
    status = tool.main(["--check"])
    told = capsys.readouterr()
    assert status == 0, told.out + told.err + "make tables writes them"

"""Reports as pages: what stands on them, and that they need nothing else."""

import json
import re
import sys
from html.parser import HTMLParser

import pytest

from commands import call
from pomp.experiments.reporting.contents import write_document
from pomp.experiments.reporting.documents import to_markdown
from pomp.experiments.reporting.numbers import read_numbers
from pomp.experiments.reporting.pages import to_html
from pomp.experiments.store import pack
from pomp.machine.zoo import ZOO
from stores import finish, keep, make_cell, seeds_of

EVIL = "DEF run m( <script>alert('x')</script> | `` ``` & m)"
RULES = {path.name: path.read_bytes() for path in (ZOO / "Farmer" / "text").iterdir()}
COST = {"candidates": 1500, "actions": 27_700_000_000, "seconds": 90.0}
LONE = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """The elements of a page; refuses those that are not closed, or closed in another order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in LONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def results():
    curve = [[10, 0.1], [100, 0.5]]
    rules = make_cell("text", seed=0)
    return [
        *seeds_of("cem", "Maze", (0.5, 0.5), cost=COST),
        *seeds_of("pomp", "Farmer", (0.6, 0.7), curve=curve, validation=0.5, programs=[EVIL]),
        *seeds_of("pomp", "Farmer", (0.5, 0.6), scale=2),
        finish(rules, (0.8,), curve=curve, validation=0.8, made={"hardware": "<b>bold</b>"}),
    ]


@pytest.fixture(scope="module")
def store(results, tmp_path_factory):
    return keep(tmp_path_factory.mktemp("pages") / "store", results, {results[-1].cell: RULES})


@pytest.fixture(scope="module")
def numbers(store):
    return read_numbers(store, repetitions=20)


@pytest.fixture(scope="module")
def written(store, tmp_path_factory):
    """The folder that `pomp report` writes."""
    from pomp.cli.store_report import report_store

    folder = tmp_path_factory.mktemp("written") / "deep" / "report"
    report_store(str(store), (), str(folder), as_json=False)
    return folder


def test_the_page_is_well_formed_and_needs_no_other_file(written):
    text = (written / "report.html").read_text()
    page = Page(text)
    for tag in ("script", "link", "img", "iframe", "object"):
        assert page.all(tag) == []
    names = ("href", "src", "xlink:href", "data", "action")
    links = [one[name] for _, one in page.elements for name in names if name in one]
    assert {link[0] for link in links} == {"#"}
    outside = {url for url in re.findall(r"https?://[^\s\"'<)]+", text)}
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"@import|url\((?!#)", text)


def test_links_and_identifiers_of_the_page_fit_together(written):
    page = Page((written / "report.html").read_text())
    names = [one["id"] for _, one in page.elements if "id" in one]
    assert len(names) == len(set(names))
    links = {
        one[key][1:] for _, one in page.elements for key in ("href", "xlink:href") if key in one
    }
    assert links <= set(names)


def test_the_page_is_for_light_and_dark_and_small_screens(written):
    text = (written / "report.html").read_text()
    assert "prefers-color-scheme: dark" in text
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in Page(text).all(
        "meta"
    )
    assert text.count("<table") == text.count('<div class="scroll"')
    assert "#123456" not in text  # ink that nobody has replaced


def test_pictures_are_in_the_page_and_beside_the_markdown(written):
    page, text = (written / "report.html").read_text(), (written / "report.md").read_text()
    files = {f"figures/{path.name}" for path in (written / "figures").iterdir()}
    assert files == set(re.findall(r"!\[.*?\]\((.*?)\)", text))
    for name in ("growth-Farmer", "horizons-Farmer", "over-table2-mean", "machine-Farmer-text"):
        assert f"figures/{name}.svg" in files
    assert page.count("<svg ") == len(files)


def test_names_from_results_are_no_markup(written):
    text, page = (written / "report.md").read_text(), (written / "report.html").read_text()
    assert "<script>" not in page
    assert "<b>bold" not in page
    assert EVIL in Page(page).text
    fenced = re.search(r"^(`{3,})\nmode 1: (.*?)\n\1$", text, re.DOTALL | re.MULTILINE)
    assert (len(fenced[1]), fenced[2]) == (4, EVIL)  # longer than what the text holds
    assert "<script>" not in text.replace(fenced[0], "")
    assert "&lt;b>bold" in text


def test_a_report_is_the_same_every_time(store, written, tmp_path, capsys):
    again = tmp_path / "again"
    status, printed, _ = call(capsys, "report", store, "--out", again)
    assert (status, printed) == (0, f"{again}/report.md\n{again}/report.html\n")
    for path in written.rglob("*.*"):
        assert (again / path.relative_to(written)).read_bytes() == path.read_bytes()


def test_pictures_of_an_earlier_report_go(store, tmp_path, capsys):
    old = tmp_path / "figures" / "old.svg"
    old.parent.mkdir()
    old.write_text("<svg/>")
    assert call(capsys, "report", store, "--out", tmp_path)[0] == 0
    assert not old.exists()


def test_sections_are_those_of_which_there_are_results(numbers, tmp_path):
    titles = [section.name for section in write_document(numbers, {}).sections]
    assert titles == [
        *("summary", "table1", "table2", "over-tasks", "sample-efficiency", "generalisation"),
        *("state-machines", "costs", "origins"),
    ]
    packed = tmp_path / "all.jsonl.gz"
    packed.write_bytes(pack([finish(make_cell(stage="search"), ())]))
    document = write_document(read_numbers(packed), {})
    assert [section.name for section in document.sections] == ["origins"]
    Page(to_html(document))


def test_a_rehearsal_says_so_loudly(tmp_path, numbers):
    store = keep(tmp_path / "store", seeds_of("cem", "Maze", (0.5,), budget=0.001))
    document = write_document(read_numbers(store), {})
    [warning] = document.warnings
    assert warning.startswith("A REHEARSAL: every method did 0.1 % of its work (budget 0.001).")
    assert f"> **{warning}**" in to_markdown(document)
    assert f'role="alert">{warning}</p>' in to_html(document)
    assert write_document(numbers, {}).warnings == ()


def test_how_far_bootstraps_cover_is_said(numbers):
    for text in (to_markdown(write_document(numbers, {})), to_html(write_document(numbers, {}))):
        assert "holds the true one in 91 % of all cases" in text


def test_entries_are_bold_marked_and_explained_on_hover(numbers):
    page = to_html(write_document(numbers, {}))
    assert "<strong>0.80 ± 0.00</strong> <small>(1 of 2 seeds)</small>" in page
    assert '<b class="below">▼</b> <strong>0.50 ± 0.00</strong>' in page
    assert re.search(r'title="seeds 0.600 0.700; 95 % interval 0.015 to 1.285; ours less', page)
    text = to_markdown(write_document(numbers, {}))
    assert "| CEM<br>paper | ▼ **0.50 ± 0.00**<br>1.00 ± 0.00 |" in text
    assert "| POMP<br>paper | <ins>0.65 ± 0.05</ins><br>0.62 ± 0.02 |" in text


def test_costs_and_origins_have_their_tables(numbers):
    grids = write_document(numbers, {}).grids
    costs = {row.name: [one.text for one in row.entries] for row in grids["costs"].rows}
    assert costs["CEM"] == ["2", "1.5 k", "-", "27.7 bn", "-", "1.5 min", "3 min", "-", "an abacus"]
    origins = {row.name: row.entries[0].text for row in grids["origins"].rows}
    assert origins["commit"] == "c0ffee"
    assert origins["hardware"] == "<b>bold</b> (1), an abacus (6)"
    assert origins["method revision"] == "cem 1 (2), pomp 1 (4), text 1 (1)"


# The command


def test_without_a_folder_the_report_is_printed(store, capsys):
    status, printed, _ = call(capsys, "report", store)
    assert status == 0
    assert printed.startswith("# Program machine policies: results\n")
    assert "## Table 2: Karel-Long" in printed
    assert "![" not in printed.replace("![machine", "")


def test_the_numbers_are_printed_as_json(store, tmp_path, capsys):
    status, printed, _ = call(capsys, "report", store, "--json", "--out", tmp_path)
    found = json.loads(printed)
    assert (status, found["cells"], found["budget"]) == (0, 7, 1.0)
    [cem, pomp] = [table["lines"][0] for table in found["tables"]]
    assert cem["entries"]["Maze"]["summary"]["mean"] == 0.5
    assert pomp["entries"]["Farmer"]["values"] == [0.6, 0.7]
    assert (tmp_path / "report.html").is_file()


def test_a_packed_file_is_a_store_too(results, tmp_path, capsys):
    packed = tmp_path / "all.jsonl.gz"
    packed.write_bytes(pack(results))
    status, printed, _ = call(capsys, "report", packed)
    assert status == 0
    assert "A packed file of results keeps programs" in printed


def test_without_matplotlib_the_tables_are_there_and_what_is_missing_is_said(
    store, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert call(capsys, "report", store, "--out", tmp_path)[0] == 0
    text = (tmp_path / "report.md").read_text()
    assert "Without pictures: matplotlib is not installed: pip install 'pomp-rl\\[plots\\]'" in text
    assert "## Table 2: Karel-Long" in text
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["machine-Farmer-text.svg"]
    Page((tmp_path / "report.html").read_text())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("{store}", "--starts", "4"), "--starts and --allow go with folders of runs"),
        (("{store}", "--parts", "best"), "there are no results of 'best'"),
        (("{store}", "--out", "{store}/store.json"), "cannot write into"),
        (("{store}", "{store}"), "holds no run"),
        (("{folder}", "--parts", "paper"), "--parts goes with a store"),
        (("{folder}/none.jsonl.gz",), "there are no results in"),
    ],
)
def test_bad_input_is_refused_in_one_line(given, message, store, tmp_path, capsys):
    arguments = [one.format(store=store, folder=tmp_path) for one in given]
    status, _, told = call(capsys, "report", *arguments)
    assert (status, told.count("\n")) == (2, 1)
    assert message in told


def test_results_of_other_settings_are_refused(tmp_path, capsys):
    other = finish(make_cell(seed=1), fingerprint={"settings": "other"})
    store = keep(tmp_path / "store", [*seeds_of("pomp", "Farmer", (0.5,)), other])
    status, _, told = call(capsys, "report", store, "--out", tmp_path / "out")
    assert status == 2
    assert "paper/pomp/Farmer/seed1 does not belong beside paper/pomp/Farmer/seed0" in told
    assert not (tmp_path / "out").exists()

"""A network beside what it can be simplified to: in the terminal, as JSON and as a page."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pomp
from commands import call
from pomp.analysis.explanation import explain
from pomp.analysis.extracted import save_extraction
from pomp.analysis.extraction import ExtractionConfig, extract
from pomp.analysis.levels import compare_levels
from pomp.experiments.reporting.machine_pages import explain_machine
from pomp.experiments.reporting.pages import to_html
from pomp.machine.config import BottleneckConfig
from pomp.machine.text import parse_machine

NETWORK = "zoo:UpNDown/network"
RULES = Path(__file__).parents[2] / "examples" / "machines" / "up_n_down.machine"
FEW = ("--episodes", 3)
SPIN = """\
machine StairClimber
most_steps 20
start spin

mode spin: DEF run m( turnLeft m)
  else -> spin

mode never: DEF run m( move m)
  else -> stop
"""


@pytest.fixture(scope="module")
def extraction():
    quick = BottleneckConfig(steps=300)
    config = ExtractionConfig(sizes=(2,), episodes=8, trials=8, bottleneck=quick)
    return extract(pomp.load_machine(NETWORK), config)


@pytest.fixture(scope="module")
def extracted(extraction, tmp_path_factory):
    folder = tmp_path_factory.mktemp("extracted") / "out"
    save_extraction(extraction, folder)
    return folder


class Page(HTMLParser):
    """The tags of a page, its texts, and whether every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("meta", "rect", "path", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_an_extracted_machine_tells_its_table_and_its_observations(extracted):
    found = explain(pomp.load_machine(extracted / "machine"), episodes=4)
    assert re.fullmatch(r"Begins with `M1`( at O\d)?.*\.", found.start)
    assert "stops at O" in found.modes[0].rules
    assert [one.name for one in found.observations] == ["O1", "O2"]
    assert sum(one.share for one in found.observations) == pytest.approx(1.0)
    choices = sum(one.count for one in found.observations)
    assert choices == (found.found.paths >= 0).sum()
    for one in found.observations:
        assert 1 <= len(one.examples) <= 3
        assert len(set(one.examples)) == len(one.examples)


def test_the_terminal_shows_what_each_simplification_costs(capsys, extracted):
    shown = ("--extracted", extracted, "--rules", RULES)
    status, out, _ = call(capsys, "explain", NETWORK, *shown, *FEW)
    assert status == 0
    assert "\nAs a state machine: 1 mode, 2 observations\n" in out
    assert "\nAs rules: 8 modes, 25 rules, 16 conditions\n" in out
    assert "\nAs a minimal state machine" not in out  # it is the same
    costs = out.split("What each simplification costs\n")[1].splitlines()
    names = [line[2:23].strip() for line in costs]
    assert names == ["network", "state machine", "minimal state machine", "rules"]
    assert [line.endswith("%") for line in costs] == [False, True, True, True]


def test_a_state_machine_can_be_extracted_on_the_way(capsys, monkeypatch, extraction, extracted):
    monkeypatch.setattr("pomp.cli.extract.extract_shown", lambda machine: extraction)
    now = call(capsys, "explain", NETWORK, "--extract", *FEW)
    assert now == call(capsys, "explain", NETWORK, "--extracted", extracted, *FEW)


def test_json_tells_the_same(capsys, extracted):
    status, out, _ = call(capsys, "explain", NETWORK, "--extracted", extracted, *FEW, "--json")
    told = json.loads(out)
    assert status == 0
    assert [level["name"] for level in told["levels"]] == [
        "network", "state machine", "minimal state machine"
    ]  # fmt: skip
    network, states, minimal = told["levels"]
    assert network["mean"] == told["mean"]
    assert states["share"] == states["mean"] / network["mean"]
    assert minimal["mean"] == states["mean"]
    assert told["html"] is None


def test_a_page_needs_nothing_else(capsys, extracted, tmp_path):
    file = tmp_path / "page.html"
    shown = ("--extracted", extracted, "--rules", RULES, "--html", file)
    status, out, _ = call(capsys, "explain", NETWORK, *shown, *FEW)
    assert (status, out) == (0, f"{file}\n")
    text = file.read_text()
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert set(re.findall(r"https?://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in text
    headings = [data for data in page.texts if data in ("Its modes", "As a state machine")]
    assert headings.count("As a state machine") == 2  # the link and the heading
    assert "Nothing can be left out: it is the one before." in page.texts
    assert page.tags.count("svg") >= 3 + 2 + 2  # graphs, a run of the mode, worlds


@pytest.mark.parametrize("machine", ["zoo:UpNDown/text", NETWORK])
def test_any_machine_has_a_page(capsys, machine, tmp_path):
    status, _, _ = call(capsys, "explain", machine, *FEW, "--html", tmp_path / "page.html")
    assert status == 0
    assert "Its modes" in (tmp_path / "page.html").read_text()


def test_a_machine_that_never_leaves_a_mode_and_never_ends_has_a_page(capsys, tmp_path):
    (tmp_path / "spin.machine").write_text(SPIN)
    page = tmp_path / "page.html"
    status, _, _ = call(capsys, "explain", tmp_path / "spin.machine", *FEW, "--html", page)
    texts = Page(page.read_text()).texts
    assert status == 0
    assert "0 of 3" in texts
    assert "spin: 100.0% of all runs" in texts
    assert "never: never ran" in texts


def test_comments_and_notes_are_no_html():
    evil = "<img src=x onerror=alert(1)>"
    machine = parse_machine(f"# {evil}\n{RULES.read_text()}")
    levels = compare_levels(machine, explain(machine, episodes=2), [("rules", machine)], episodes=2)
    page = to_html(explain_machine(levels, [evil]))
    assert evil not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") == 3


def test_rules_have_nothing_to_extract_and_are_explained(capsys):
    status, out, _ = call(capsys, "explain", RULES, "--extract", *FEW)
    assert status == 0
    assert out.endswith("There is nothing to extract: UpNDown: 8 modes, transitions by rules, "
                        "with compass.\n")  # fmt: skip
    assert "8 modes" in out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--html", "none/page.html"), "cannot write 'none/page.html': there is no folder 'none'"),
        (("--html", "page.txt"), "a page's file ends in .html, got 'page.txt'"),
        (("--extracted", "none"), "'none/machine' does not exist"),
        (("--rules", "none.machine"), "'none.machine' does not exist"),
        (("--rules", "zoo:Maze/text"), "must be for the same task; the rules given: Maze"),
    ],
)
def test_what_cannot_be_shown_or_written_is_refused_in_one_line(
    capsys, monkeypatch, tmp_path, given, said
):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, "explain", NETWORK, *given, *FEW)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_page_that_exists_is_kept(capsys, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    status, _, err = call(capsys, "explain", NETWORK, "--html", tmp_path / "page.html")
    assert (status, err) == (2, f"pomp: '{tmp_path / 'page.html'}' exists; name a new file\n")
    assert (tmp_path / "page.html").read_text() == "mine"


def test_a_state_machine_of_another_machine_is_refused(capsys, extracted):
    status, _, err = call(capsys, "explain", "zoo:Farmer/network", "--extracted", extracted, *FEW)
    assert status == 2
    assert "holds a state machine of another machine: its modes are others" in err

"""Pictures of machines: nothing meets anything, and everything that decides is shown."""

import re
import subprocess
import sys
from itertools import combinations
from random import Random
from xml.etree import ElementTree

import numpy as np
import pytest

import pomp
from pomp.dsl.sampling import sample_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.machine.diagram import HEADLINE, Box, lay_out
from pomp.machine.drawing import draw_machine, fit_to_page
from pomp.machine.evaluation import Evaluation
from pomp.machine.policy import ProgramMachine
from pomp.machine.sensors import SENSOR_NAMES
from pomp.machine.transitions import DecisionList, Rule
from pomp.machine.zoo import KINDS, zoo_tasks
from pomp.tasks.catalog import find_task

ZOO = [f"zoo:{task}/{kind}" for task in zoo_tasks() for kind in KINDS]
PROGRAMS = [" ".join(LEAPS.decode(row)) for row in sample_programs(60, 11)]


def random_machine(modes, random):
    def rules():
        listed = [
            Rule(random.choice([None, *range(modes)]), tuple(random.choices(CONDITIONS, k=n)))
            for n in random.choices([1, 1, 2, 4], k=random.randrange(5))
        ]
        return (*listed, Rule(random.choice([None, *range(modes)])))

    names = [f"m{number}-{'x' * random.randrange(30)}" for number in range(modes)]
    return ProgramMachine(
        task="Farmer",
        modes=tuple(random.choices(PROGRAMS, k=modes)),
        transition=DecisionList(rules(), tuple(rules() for _ in range(modes))),
        names=random.choice([None, tuple(names)]),
    )


CONDITIONS = [*SENSOR_NAMES, *(f"not {name}" for name in SENSOR_NAMES)]


def random_counts(modes, random):
    return np.array(random.choices([0, 1, 70], k=(modes + 1) ** 2)).reshape(modes + 1, -1)


def lines_of(arrow):
    """The three straight parts of an arrow, as boxes without a width or a height."""
    top, bottom = sorted((arrow.leaves, arrow.enters))
    return [
        Box(arrow.left, arrow.leaves, arrow.track - arrow.left, 0),
        Box(arrow.track, top, 0, bottom - top),
        Box(arrow.tip, arrow.enters, arrow.track - arrow.tip, 0),
    ]


def check(diagram):
    """Refuse texts that meet others, boxes or arrows, and whatever is outside the picture."""
    texts, blocks = [text.box for text in diagram.texts], [one.box for one in diagram.blocks]
    for boxes in (texts, blocks):
        assert not any(one.meets(other) for one, other in combinations(boxes, 2))
    lines = [line for arrow in diagram.arrows for line in lines_of(arrow)]
    canvas = Box(0, 0, diagram.width, diagram.height)
    for box in (*texts, *blocks, *lines):
        assert contains(canvas, box)
    for text in texts:
        assert all(contains(block, text) for block in blocks if block.meets(text))
        assert not any(line.meets(text) for line in lines)
    assert not any(line.meets(block) for line in lines for block in blocks)
    for one, other in combinations(diagram.arrows, 2):
        if one.to != other.to and one.track == other.track:
            assert not lines_of(one)[1].meets(with_width(lines_of(other)[1]))


def contains(outer, inner):
    return (
        outer.left <= inner.left
        and inner.right <= outer.right
        and outer.top <= inner.top
        and inner.bottom <= outer.bottom
    )


def with_width(line):
    return Box(line.left - 1, line.top, 2, line.height)


@pytest.mark.parametrize("name", ZOO)
def test_nothing_meets_anything_in_the_picture_of_a_shipped_machine(name):
    machine = pomp.load_machine(name)
    modes = len(machine.modes)
    check(lay_out(machine, ["A headline", "another"]))
    check(lay_out(machine, [], random_counts(modes, Random(name))))
    check(lay_out(machine, ["a headline that is longer than all there is below it" * 3]))


@pytest.mark.parametrize("modes", range(1, 9))
def test_nothing_meets_anything_in_the_picture_of_a_random_machine(modes):
    random = Random(modes)
    for _ in range(25):
        machine = random_machine(modes, random)
        check(lay_out(machine, ["A headline"]))
        check(lay_out(machine, ["A headline"], random_counts(modes, random)))


def test_the_check_finds_what_meets():
    assert Box(0, 0, 2, 2).meets(Box(1, 1, 2, 2))
    assert Box(0, 0, 4, 4).meets(Box(1, 2, 2, 0))  # a line through a box
    assert not Box(0, 0, 2, 2).meets(Box(2, 0, 2, 2))  # only an edge in common
    assert not contains(Box(0, 0, 2, 2), Box(1, 1, 2, 1))


def machine_of_two(**settings):
    return ProgramMachine(
        task="Harvester",
        modes=("DEF run m( pickMarker move m)", "DEF run m( turnLeft m)"),
        transition=DecisionList(
            start=(Rule(0),),
            after=(
                (Rule(1, ("not frontIsClear",)), Rule(1, ("idle", "marker left")), Rule(0)),
                (Rule(None),),
            ),
        ),
        **settings,
    )


def evaluation_of(paths):
    """An evaluation of episodes that chose so."""
    count, zeros = len(paths), np.zeros(len(paths))
    steps = np.array(paths, np.int16)
    whole, setting = zeros.astype(np.int64), find_task("Harvester").configure()
    return Evaluation(setting, zeros + 0.5, whole, whole, np.ones(count, bool), steps)


def texts_in(picture):
    return ["".join(one.itertext()) for one in ElementTree.fromstring(picture).iter() if
            one.tag.endswith("text")]  # fmt: skip


def test_rules_stand_on_the_arrows():
    diagram = lay_out(machine_of_two(), [])
    shown = [text.text for text in diagram.texts if text.role != HEADLINE]
    for text in ("start", "stop", "if not frontIsClear", "if idle and marker left", "else",
                 "always"):  # fmt: skip
        assert shown.count(text) == 1
    assert [arrow.to for arrow in diagram.arrows] == [0, 1, 1, 0, 2]  # 2: the stop


def test_a_condition_stands_right_above_its_arrow():
    diagram = lay_out(machine_of_two(), [])
    labels = [text for text in diagram.texts if text.text in ("else", "always")]
    for label, arrow in zip(labels, diagram.arrows[3:], strict=True):
        assert 0 < arrow.leaves - label.box.bottom < 4
        assert arrow.left < label.box.left < label.box.right < arrow.track


def test_rules_with_one_target_were_counted_together():
    machine = machine_of_two()
    found = evaluation_of([[0, 0, 0, 0, 1, 2]])
    shown = texts_in(draw_machine(machine, found))
    assert "25% together" in shown
    assert "75%" in shown
    assert "mean return 0.500 of 1, 1 episode" in shown


def test_a_network_shows_what_was_chosen_how_often():
    network = pomp.load_machine("zoo:UpNDown/network")
    machine = ProgramMachine(task="UpNDown", modes=network.modes, transition=network.transition)
    assert len(machine.modes) == 1
    assert "evaluate it to see what follows which mode" in texts_in(draw_machine(machine))
    counts = np.array([[10, 0], [995, 5]])
    diagram = lay_out(machine, [], counts)
    assert [(arrow.to, arrow.share) for arrow in diagram.arrows] == [(0, 1.0), (0, 0.995)]


def test_every_text_has_its_width_prescribed_and_its_words_escaped():
    picture = draw_machine(machine_of_two(names=("pick", "turn")))
    widths = [one.get("textLength") for one in ElementTree.fromstring(picture).iter() if
              one.tag.endswith("text")]  # fmt: skip
    assert None not in widths
    assert "DEF run m( pickMarker move m)" in texts_in(picture)
    assert ">pick</text>" in picture


def test_notebooks_show_machines_and_evaluations():
    machine = machine_of_two()
    assert machine._repr_svg_() == fit_to_page(draw_machine(machine))
    one = evaluation_of([[0, 2]])._repr_html_()
    assert "mean return 0.5000, 95 % interval 0.5000 to 0.5000" in one
    assert one.count("<rect") == 1
    found = evaluation_of([[0, 2]] * 3)
    spread = Evaluation(**{**vars(found), "returns": np.array([0.0, 0.2, 1.0])})._repr_html_()
    assert spread.count("<rect") == 3
    exact = Evaluation(**{**vars(found), "weights": np.array([0.5, 0.25, 0.25])})._repr_html_()
    assert "exact return 0.500000" in exact


def test_only_a_notebook_is_told_to_fit_the_picture_to_its_page():
    machine = pomp.load_machine("zoo:Maze/text")
    root = draw_machine(machine).splitlines()[0]
    assert all(f' {name}="' in root for name in ("width", "height", "viewBox"))
    assert "style" not in root
    assert 'style="max-width:100%;height:auto"' in machine._repr_svg_().splitlines()[0]


def test_a_picture_of_rules_imports_nothing_heavy():
    code = (
        "import sys, pomp; pomp.load_machine('zoo:Farmer/text')._repr_svg_(); "
        "print({'torch', 'matplotlib', 'PIL'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "set()"


def test_pictures_are_readable_on_light_and_dark_pages():
    picture = draw_machine(machine_of_two())
    dark = re.search(r"@media \(prefers-color-scheme:dark\)\{(.*?)\}</style>", picture)[1]
    classes = set(re.findall(r'class="(pomp-[\w-]+)"', picture))
    assert classes <= set(re.findall(r"\.(pomp-[\w-]+)\{", dark))
    assert 'class="pomp-paper" fill="#ffffff"' in picture

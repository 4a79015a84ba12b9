"""What the documents say is true."""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import pomp
from pomp.experiments.store import read_results

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pomp"
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
TREE = ARCHITECTURE.split("src/pomp/\n")[1].split("```")[0]
DOCS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
LAYERS = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL)


def entry_of(package):
    """What the architecture's tree says about a package: its line, and those indented below it."""
    return re.search(rf"^  {package}/ .*\n(?:   .*\n)*", TREE, re.MULTILINE)[0]


def test_the_python_of_the_readme_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    printed = [
        subprocess.run([sys.executable, "-c", block], capture_output=True, check=True, cwd=tmp_path)
        .stdout.decode()
        .strip()
        for block in blocks
    ]
    assert printed[0] == "[0.13888889 0.13888889]"
    first, _, last = printed[1].splitlines()
    assert first in blocks[1]
    assert last in blocks[1]


def test_the_readme_lists_the_public_names():
    listed = README.split("public door:")[1].split(".\n\n")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == set(pomp.__all__)
    for name in pomp.__all__:
        assert getattr(pomp, name) is not None


def test_an_unknown_public_name_is_an_attribute_error():
    assert not hasattr(pomp, "rollercoaster")
    assert set(dir(pomp)) == set(pomp.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_names_every_module(package):
    named = set(re.findall(r"\w+", entry_of(package)))
    modules = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__"}
    assert modules <= named, modules - named


def test_the_architecture_names_no_module_that_is_gone():
    for package in PACKAGES:
        # Below a package each line begins with modules or folders, then two blanks or an end.
        for names in re.findall(r"^    (\w[\w, /]*?)(?:  |: |$)", entry_of(package), re.MULTILINE):
            for name in filter(None, re.split(r"[ ,]+", names)):
                path = PACKAGE / package / name.rstrip("/")
                assert path.is_dir() or path.with_suffix(".py").is_file(), path


def test_the_architecture_lists_packages_from_the_lowest_layer_to_the_highest():
    listed = re.findall(r"^  (\w+)/", TREE, re.MULTILINE)
    layers = [re.findall(r"\w+", layer) for layer in re.findall(r'"(.*?)"', LAYERS[1])]
    heights = {package: -number for number, layer in enumerate(layers) for package in layer}
    assert set(listed) == set(heights)
    assert listed == sorted(listed, key=heights.__getitem__)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *DOCS])
def test_files_that_a_document_names_exist(page):
    folders = "|".join((*PACKAGES, "benchmarks", "docs", "examples", "results", "tests", "tools"))
    for name in re.findall(rf"`((?:{folders})/[\w/]+\.\w+)`", (ROOT / page).read_text()):
        assert (ROOT / name).exists() or (PACKAGE / name).exists(), name


def test_importing_the_package_is_instant_because_nothing_heavy_comes_with_it():
    code = "import sys, pomp; print({'numba', 'numpy', 'torch'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "set()"


def distilled_rows():
    """The rows of the table of distilled machines, as `results/machine/distilled.json` has them."""
    told = json.loads((ROOT / "results" / "machine" / "distilled.json").read_text())
    for name, one in told["tasks"].items():
        network, rules = one["returns"]["network"], one["returns"]["rules"]
        ended = [f"{part['endings']['by choice']}/{part['episodes']}" for part in (network, rules)]
        likeliest, drawn = one["fidelity"]["likeliest"], one["fidelity"]["drawn"]
        yield (
            f"| {name} | {network['mean']:.3f} | {rules['mean']:.3f} | {one['share']:.1%} | "
            f"{one['modes']} | {one['rules']} | {one['conditions']} | {likeliest:.0%} | "
            f"{drawn:.0%} of {one['fidelity']['most']:.0%} | {ended[0]} | {ended[1]} | "
            f"{'tried' if one['searched'] else 'fitted'} | {one['seconds'] or '-'} |"
        )


def test_the_table_of_distilled_machines_is_that_of_the_file():
    text = (ROOT / "docs" / "RESULTS.md").read_text()
    rows = list(distilled_rows())
    assert len(rows) == 15
    assert "\n".join(rows) in text


def faithful_rows():
    """The rows of the table of faithful machines, but for what the paper has."""
    found, folder = {}, ROOT / "results" / "machine"
    for name in ("up-n-down-farmer-inf-doorkey-20M", "seesaw-inf-harvester-4M"):
        for one in read_results(folder / f"{name}.jsonl.gz"):
            cell = one.cell
            if (cell.stage, cell.scale) == ("policy", 1) and cell.task != "Seesaw":
                seeds = found.setdefault((cell.task, cell.method), {})
                seeds[cell.seed] = one.values["validation"], one.mean
    for row, told in json.loads((folder / "seesaw-18M.json").read_text())["rows"].items():
        found["Seesaw", row] = dict(enumerate(zip(told["validation"], told["fresh"], strict=True)))
    for (task, row), own in found.items():
        scores, returns = zip(*(own[seed] for seed in range(5)), strict=True)
        seeds = (" ".join(f"{one:.3f}"[1:] for one in part) for part in (scores, returns))
        mean, std = statistics.mean(returns), statistics.pstdev(returns)
        name = {"UpNDown": "Up-N-Down"}.get(task, task.replace("Inf", "Inf-"))
        label = {"pomp": "pomp", "pomp-bound": "by bound"}[row]
        yield " | ".join((f"| {name}", label, *seeds, f"{mean:.3f}"[1:] + " ± " + f"{std:.3f}"[1:]))


def test_the_table_of_faithful_machines_is_that_of_the_files():
    text, rows = (ROOT / "docs" / "RESULTS.md").read_text(), list(faithful_rows())
    assert len(rows) == 10
    for row in rows:
        assert row in text, row


def test_the_table_of_what_a_planner_teaches_is_that_of_the_file(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from measure_teaching import FILE, rows

    told = json.loads(FILE.read_text())
    assert "\n".join(rows(told)) in (ROOT / "docs" / "RESULTS.md").read_text()


def test_the_table_of_evolved_machines_is_that_of_the_file(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from evolve_many import table_of

    told = (ROOT / "results" / "evolve" / "clean.jsonl").read_text().splitlines()
    table = table_of([json.loads(line) for line in told])
    assert table in (ROOT / "docs" / "RESULTS.md").read_text()


def test_the_tables_of_machines_that_hold_are_those_of_the_file(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from measure_holding import FILE, TABLES

    text, told = (ROOT / "docs" / "RESULTS.md").read_text(), json.loads(FILE.read_text())
    assert len(told["own"]) == 15
    for rows in TABLES:
        assert "\n".join(rows(told)) in text

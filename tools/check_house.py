"""Check what the other linters do not: sizes of signatures, shapes of arrays, names, layers.

Run by `make check`; prints a table and the places that break a rule, and exits with 1 if there are
any. `python tools/check_house.py src/pomp/modes` lists the places in one folder alone.

An array parameter (annotated as an array or a tensor, or subscripted by compiled code) has its
shape stated if a line of the docstring of its function, class, module or package that names it in
backticks or before a colon also holds a shape in brackets, as in "cells: `[B, H * W]` uint8".
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "src"
MOST_OF_KERNEL, MOST_OF_FUNCTION = 12, 10
LEAST_SHAPES = 0.95
MOST_KAREL = 29
KAREL_ROOMS = ("dsl", "karel", "tasks", "engine")
KAREL_FACTS = ("pomp.dsl.vocabulary", "pomp.karel.dynamics")
KERNELS = {"kernel", "device_kernel"}
COMPILED = {"scalar", "routine", *KERNELS}
ARRAYS = re.compile(r"\b(NDArray|Tensor|ndarray)\b")
SHAPE = re.compile(r"`?\[[^\]]+\]")
SEE_ALONE = re.compile(r"^\s*\w+: (see|as) `[^`]*`\.?$", re.IGNORECASE)


@dataclass
class Function:
    """One function: where it stands, its parameters, and the docstrings that speak about them."""

    place: str
    name: str
    parameters: list[str]
    arrays: list[str]
    returns_array: bool
    is_kernel: bool
    docs: list[str]
    own_doc: str = ""

    def lacks(self) -> list[str]:
        """The array parameters without a stated shape, and `return` if its shape is missing."""
        lines = [line for doc in self.docs for line in _joined(doc)]
        missing = [name for name in self.arrays if not any(_states(line, name) for line in lines)]
        if self.returns_array and not SHAPE.search(self.own_doc):
            missing.append("return")
        return missing


@dataclass
class Survey:
    """What was found in the tree."""

    functions: list[Function] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    verbs: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    karel: list[str] = field(default_factory=list)
    see_alone: list[str] = field(default_factory=list)


def _joined(doc: str) -> list[str]:
    """The docstring's lines, continuation lines joined to the entry they belong to."""
    entries: list[str] = []
    for line in doc.splitlines():
        is_entry = re.match(r"\s*(\w+|`[^`]+`)(, `[^`]+`)*( and `[^`]+`)?:? ", line) is not None
        deep = line.startswith(" " * 12)
        if entries and deep and not (is_entry and re.match(r"\s{4,8}\w+:", line)):
            entries[-1] += " " + line.strip()
        else:
            entries.append(line)
    text = " ".join(part.strip() for part in doc.splitlines())
    return [*entries, *re.split(r"(?<=[.;]) ", text)]


def _states(line: str, name: str) -> bool:
    """Whether a line names a parameter and holds a shape."""
    is_named = re.search(rf"((^|\bArgs:)\s*{name}:|`{name}`|\b{name}\b \[|\b{name}\b `\[)", line)
    return is_named is not None and SHAPE.search(line) is not None


def _decorators(node: ast.FunctionDef) -> set[str]:
    names = set()
    for one in node.decorator_list:
        target = one.func if isinstance(one, ast.Call) else one
        names.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
    return names


def _array_parameters(node: ast.FunctionDef, is_compiled: bool) -> list[str]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [
        one.arg
        for one in arguments
        if one.annotation is not None
        and ARRAYS.search(text := ast.unparse(one.annotation))
        and "Callable" not in text
    ]
    if is_compiled:
        plain = {one.arg for one in arguments}
        used = {
            inner.value.id
            for inner in ast.walk(node)
            if isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name)
        }
        names += [one.arg for one in arguments if one.arg in plain & used]
    return list(dict.fromkeys(names))


def _functions(tree: ast.Module, place: str, docs: list[str]) -> Iterator[Function]:
    """Top-level functions and methods; what stands inside a function belongs to it."""
    pending: list[tuple[ast.AST, list[str]]] = [(tree, docs)]
    while pending:
        parent, about = pending.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.ClassDef):
                pending.append((node, [*about, ast.get_docstring(node, clean=False) or ""]))
            elif isinstance(node, ast.FunctionDef):
                decorators, own = _decorators(node), ast.get_docstring(node, clean=False) or ""
                names = [
                    one.arg
                    for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                    if one.arg not in ("self", "cls")
                ]
                is_overload = "overload" in decorators
                returns = ast.unparse(node.returns) if node.returns else ""
                if not is_overload:
                    yield Function(
                        f"{place}:{node.lineno}",
                        node.name,
                        names,
                        _array_parameters(node, bool(decorators & COMPILED)),
                        bool(ARRAYS.search(returns)) and "Callable" not in returns,
                        bool(decorators & KERNELS),
                        [own, *about],
                        own,
                    )


def survey(root: Path) -> Survey:
    """Read every module below a folder."""
    found = Survey()
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        place = str(path.relative_to(ROOT.parent))
        parts = path.relative_to(ROOT / "pomp").parts if path.is_relative_to(ROOT / "pomp") else ()
        docs = [ast.get_docstring(tree, clean=False) or ""]
        for folder in path.parents:
            init = folder / "__init__.py"
            if folder == ROOT or not init.exists():
                break
            docs.append(ast.get_docstring(ast.parse(init.read_text()), clean=False) or "")
        functions = list(_functions(tree, place, docs))
        found.functions += functions
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found.classes[node.name].append(f"{place}:{node.lineno}")
            is_task = parts[:1] == ("tasks",) or parts[:2] == ("conformance", "reference")
            is_twin = path.stem.endswith("_cuda")
            is_public = isinstance(node, ast.FunctionDef) and node.name[0] != "_"
            if is_public and not is_task and not is_twin:
                found.verbs[node.name].append(f"{place}:{node.lineno}")
        if parts and parts[0] not in KAREL_ROOMS:
            names = {
                node.module
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module
            }
            if names & set(KAREL_FACTS):
                found.karel.append(place)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if SEE_ALONE.match(line):
                found.see_alone.append(f"{place}:{number}: {line.strip()}")
    return found


def main(folders: list[str]) -> int:
    """Print the table and what breaks a rule; 1 if anything does."""
    found = survey(ROOT / "pomp")
    wanted = [str(Path(one).resolve().relative_to(ROOT.parent)) for one in folders]

    def is_shown(text: str) -> bool:
        return not wanted or any(text.startswith(one) for one in wanted)

    broken: list[str] = []
    arrays = [one for one in found.functions if one.arrays or one.returns_array]
    lacking = {one.place: one for one in arrays if one.lacks()}
    share = 1 - len(lacking) / len(arrays)
    if share < LEAST_SHAPES or wanted:
        broken += [
            f"{place}: {one.name} states no shape of {', '.join(one.lacks())}"
            for place, one in lacking.items()
        ]
    most = {True: 0, False: 0}
    for one in found.functions:
        count, limit = len(one.parameters), MOST_OF_KERNEL if one.is_kernel else MOST_OF_FUNCTION
        most[one.is_kernel] = max(most[one.is_kernel], count)
        if count > limit:
            broken.append(f"{one.place}: {one.name} has {count} parameters, at most {limit}")
    twice = {
        name: places
        for names in (found.classes, found.verbs)
        for name, places in names.items()
        if len(places) > 1
    }
    broken += [f"{places[0]}: {name} is also {places[1:]}" for name, places in twice.items()]
    if len(found.karel) > MOST_KAREL:
        broken += [f"{place}: imports {' or '.join(KAREL_FACTS)}" for place in found.karel]
    broken += [f"{line} explains nothing" for line in found.see_alone]
    table = {
        "array functions with shapes stated": f"{share:.1%}, at least {LEAST_SHAPES:.0%}",
        "most parameters of a kernel": f"{most[True]}, at most {MOST_OF_KERNEL}",
        "most parameters of another function": f"{most[False]}, at most {MOST_OF_FUNCTION}",
        "names used twice": f"{len(twice)}, at most 0",
        "modules that know Karel's facts": f"{len(found.karel)}, at most {MOST_KAREL}",
        "arguments explained by 'see x' alone": f"{len(found.see_alone)}, at most 0",
    }
    for what, measured in table.items():
        print(f"{what:<38} {measured}")
    shown = [line for line in broken if is_shown(line)]
    print(*shown, sep="\n")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

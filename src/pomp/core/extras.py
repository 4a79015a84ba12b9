"""Extras: what some parts of pomp need beyond its core, and how that is installed.

The distribution is called `pomp-rl`, since another project has the name `pomp` on the package
index; what is imported and typed is `pomp`.
"""

from importlib.util import find_spec

from pomp.core.errors import MissingExtraError

DISTRIBUTION = "pomp-rl"
LEARN, CUDA, PLOTS, TENSORBOARD = "learn", "cuda", "plots", "tensorboard"
RESULTS, RAY, AUTOMATA, STUDIO = "results", "ray", "automata", "studio"

_MODULES = {
    LEARN: "torch",
    PLOTS: "matplotlib",
    TENSORBOARD: "tensorboard",
    RESULTS: "duckdb",
    RAY: "ray",
    AUTOMATA: "aalpy",
    STUDIO: "fastapi",
}
"""The module by whose absence an extra is missed; `load_cuda` tells what CUDA lacks."""
_CPU_BUILD = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def is_installed(extra: str) -> bool:
    """Whether an extra can be used here."""
    return find_spec(_MODULES[extra]) is not None


def require(extra: str, what: str) -> None:
    """Refuse, before it begins, what needs an extra that is not installed.

    Args:
        extra: which.
        what: what needs it, as the subject of a sentence.

    Raises:
        MissingExtraError: the extra is not installed; says how to install it.
    """
    if not is_installed(extra):
        cpu = f" (without a GPU, first: {_CPU_BUILD})" if extra == LEARN else ""
        needed = f"{what} needs {_MODULES[extra]}, which is not installed"
        raise MissingExtraError(f"{needed}: {install_line(extra)}{cpu}")


def require_module(module: str | None, what: str) -> None:
    """Refuse what could not import a module, if that comes with an extra.

    Args:
        module: the one that was not found.
        what: what needs it, as the subject of a sentence.

    Raises:
        MissingExtraError: it comes with an extra; says how to install that.
    """
    for extra, needed in _MODULES.items():
        if module == needed:
            require(extra, what)

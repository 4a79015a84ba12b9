"""What compiled code depends on: a digest of a function, of all it calls, and of their constants.

Numba's own cache looks at the file a kernel stands in. That is too much, since a comment there
compiles everything again, and too little, since a kernel goes on with the old code of a function
or constant that it imports from another file. A fingerprint covers what a compiler would see:
byte code, constants, and the values of global names, followed through every function it reaches.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from types import CodeType, ModuleType
from typing import Any

import numba
import numpy as np

_CONFIG: Any = numba.config
_LIBRARIES = {"numpy", "numba", "numba_cuda", "llvmlite", "builtins", *sys.stdlib_module_names}
"""Top-level modules whose own code is covered by their versions."""


def versions() -> str:
    """Return a digest of what compiles: Python, Numba, NumPy, and Numba's debugging switches."""
    switches = f"{_CONFIG.BOUNDSCHECK} {_CONFIG.OPT} {_CONFIG.DEBUGINFO_DEFAULT}"
    return _digest(f"{numba.__version__} {np.__version__} {sys.version} {switches}".encode())


def fingerprint(*values: object) -> str:
    """Return a digest of functions and constants and of all that their compiled code depends on.

    Comments, docstrings, line numbers and everything that the functions do not reach change
    nothing.
    """
    seen: dict[int, int] = {}
    parts = [_describe(value, seen, ()) for value in values]
    return _digest(repr(parts).encode())


def _digest(content: bytes) -> str:
    """Return 16 hexadecimal digits for some bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def _describe(value: Any, seen: dict[int, int], names: tuple[str, ...]) -> Any:
    """Return a value as nested tuples of texts, which differ wherever compiled code could.

    Args:
        value: a constant, function, module or class that compiled code refers to.
        seen: identities of functions that are described already, with their numbers.
        names: the names that the function which refers to a module uses, attributes among them.
    """
    function = _function_of(value)
    if function is not None:
        if id(function) in seen:
            return ("seen", seen[id(function)])
        seen[id(function)] = len(seen)
        options = repr(sorted(getattr(value, "targetoptions", {}).items()))
        return ("function", options, *_describe_function(function, seen))
    if isinstance(value, ModuleType):
        if _is_library(value.__name__):
            return ("library", value.__name__)
        used = [name for name in names if hasattr(value, name)]
        parts = [(name, _describe(getattr(value, name), seen, names)) for name in used]
        return ("module", value.__name__, parts)
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, _digest(value.tobytes()))
    if isinstance(value, tuple | list):
        fields = getattr(value, "_fields", ())  # of a named tuple: code finds members by name
        return (type(value).__name__, fields, [_describe(one, seen, names) for one in value])
    if isinstance(value, type):
        members = [repr(one) for one in value] if issubclass(value, Enum) else ()
        return ("class", value.__qualname__, getattr(value, "_fields", members))
    return (type(value).__name__, repr(value))


def _function_of(value: Any) -> Callable[..., Any] | None:
    """Return the Python function behind a compiled one, or a function itself; None: neither."""
    function = getattr(value, "py_func", value)
    if not inspect.isfunction(function) or _is_library(function.__module__ or ""):
        return None
    return function


def _is_library(module: str) -> bool:
    """Whether a value belongs to a library, whose version stands for it."""
    return module.partition(".")[0] in _LIBRARIES


def _describe_function(function: Any, seen: dict[int, int]) -> Iterator[Any]:
    """Describe a function's code, its defaults, and the values its names have."""
    codes = list(_codes_of(function.__code__))
    names = tuple(sorted({name for code in codes for name in code.co_names}))
    for code in codes:
        yield code.co_code, code.co_varnames, code.co_cellvars, code.co_freevars
        yield code.co_names  # attributes, too: the code itself holds their numbers alone
        is_documented = code is function.__code__ and function.__doc__ is not None
        constants = code.co_consts[1:] if is_documented else code.co_consts  # the first is the text
        yield [repr(one) for one in constants if not isinstance(one, CodeType)]
    yield repr(function.__defaults__)
    for name in names:
        if name in function.__globals__:
            yield name, _describe(function.__globals__[name], seen, names)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, _describe(cell.cell_contents, seen, names)


def _codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_of(constant)

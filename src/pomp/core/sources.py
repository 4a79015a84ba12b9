"""Objects of one's own: values at the top of a module, found by `module:NAME`.

Finding one runs that module. A name that a person typed may do that; a name that stands in a file
may do it only if the person allowed the module.
"""

import importlib
import re
import sys
from collections.abc import Collection
from typing import Any, TypeVar

from pomp.core.errors import ConfigError, UnloadableError, UntrustedModuleError

_SOURCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_FOUND: dict[int, tuple[object, str]] = {}
"""Objects that were found, with their `module:NAME`, by their identity."""

T = TypeVar("T")


def load_object(
    source: str, kind: str, expected: type[T], allow: Collection[str] | None = None
) -> T:
    """Find an object by `module:NAME`.

    The module is looked for in the current folder first, then among the installed packages.

    Args:
        source: the module, a colon, and a name at the module's top.
        kind: what the object is called in errors, as `task`.
        expected: what it must be an instance of.
        allow: modules that may be imported, for a name that comes from a file; None: any, because
            the name comes from the caller.

    Raises:
        UntrustedModuleError: the module is not allowed.
        UnloadableError: the module cannot be imported, or has no such name.
        ConfigError: the name stands for something else.
    """
    match = _SOURCE.fullmatch(source)
    if not match:
        example = f"my_file:MY_{kind.upper().replace(' ', '_')}"
        raise ConfigError(f"a {kind} of your own is module:NAME, as in {example}, got '{source}'")
    module, name = match.groups()
    allowed = (allow,) if isinstance(allow, str) else allow  # a text holds parts of its name, too
    if allowed is not None and module not in allowed:
        raise UntrustedModuleError(kind, source, module)
    try:
        home = _import_from_here(module)
    except Exception as error:  # whatever a module of somebody else's does when it is run
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            reason += "; it is looked for in the current folder, then among installed packages"
        raise UnloadableError(f"cannot load {kind} '{source}': {reason}") from error
    if not hasattr(home, name):
        raise UnloadableError(f"cannot load {kind} '{source}': {module} has no '{name}'")
    found = getattr(home, name)
    if not isinstance(found, expected):
        raise ConfigError(f"'{source}' is a {type(found).__name__}, not a pomp {expected.__name__}")
    _FOUND[id(found)] = found, source
    return found


def find_source(value: object, home: str = "") -> str | None:
    """Return the `module:NAME` that `load_object` finds an object by.

    Args:
        value: the object.
        home: the module that most likely holds it.

    Returns:
        None if no imported module has the object at its top, or only `__main__` has: no file and
        no other process could find it.
    """
    if id(value) in _FOUND:
        return _FOUND[id(value)][1]
    for module in sorted(sys.modules, key=lambda one: one != home):
        named = vars(sys.modules[module]) if sys.modules[module] is not None else {}
        for name, other in list(named.items()) if module != "__main__" else ():
            if other is value:
                _FOUND[id(value)] = value, f"{module}:{name}"
                return f"{module}:{name}"
    return None


def require_source(value: object, kind: str, name: str, home: str = "") -> str:
    """Return the `module:NAME` of an object that a file or another process must find.

    Args:
        value: the object.
        kind: what it is called in errors, as `task`.
        name: its own name, for errors.
        home: the module that most likely holds it.

    Raises:
        ConfigError: no module that can be imported holds it.
    """
    source = find_source(value, home)
    if source is None:
        raise ConfigError(
            f"the {kind} {name} is no name at the top of an imported module, so no file and no "
            f"other process could find it; write NAME = {type(value).__name__}(...) in a file of "
            "its own and import it"
        )
    return source


def _import_from_here(module: str) -> Any:
    """Import a module, from the current folder if it is there.

    Afterwards the folder stays at the end of the search path, for what the module imports later
    and for other processes; at the front it could replace modules of the package's own.
    """
    if module in sys.modules:
        return sys.modules[module]
    sys.path.insert(0, "")
    try:
        importlib.invalidate_caches()
        return importlib.import_module(module)
    finally:
        sys.path.remove("")
        if "" not in sys.path:
            sys.path.append("")

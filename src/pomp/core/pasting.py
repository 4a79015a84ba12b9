"""Numba's compiler, made quicker where functions are pasted into each other.

For every call of a function with `inline="always"` Numba translates that function's byte code
again, with all that is pasted into it, and copies the result twice, with the names of all variables
for each block. Kernels are made of such functions, and this was more than half of the time that
they took to compile. Here a function is translated once in a process, and names are copied as one
table. Python's garbage collector waits: it would look through all that again and again for nothing.
"""

import gc
from typing import Any

from numba.core import compiler, ir
from numba.core.compiler_machinery import register_pass
from numba.core.inline_closurecall import InlineWorker, callee_ir_validator
from numba.core.untyped_passes import InlineInlinables

from pomp.core.fingerprints import fingerprint

_TRANSLATED: dict[tuple[Any, str], Any] = {}  # by function and fingerprint: its globals may change


class _Names(ir.Scope):
    """The variables of a function; a copy has a table of its own with the same variables."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Names":
        names = _Names(self.parent, self.loc)
        memo[id(self)] = names
        names.localvars._con.update(self.localvars._con)
        names.redefined.update(self.redefined)
        for name, versions in self.var_redefinitions.items():
            names.var_redefinitions[name] = set(versions)
        return names


class _Worker(InlineWorker):
    """Pastes functions as Numba does, each of them translated once."""

    def __init__(self, state: Any) -> None:
        super().__init__(
            state.typingctx, state.targetctx, state.locals, state.pipeline, state.flags,
            validator=callee_ir_validator,
        )  # fmt: skip
        self._compiler_pipeline = _untyped_passes

    def run_untyped_passes(self, func: Any, enable_ssa: bool = False) -> Any:
        """Return a function in Numba's intermediate representation, which must not be changed."""
        if enable_ssa:
            return super().run_untyped_passes(func, enable_ssa)
        key = func, fingerprint(func)
        if key not in _TRANSLATED:
            _TRANSLATED[key] = super().run_untyped_passes(func)
            for block in _TRANSLATED[key].blocks.values():
                block.scope.__class__ = _Names
        self.flags.enable_ssa = False  # as it is left by a translation
        return _TRANSLATED[key]


@register_pass(mutates_CFG=True, analysis_only=False)
class _Pasting(InlineInlinables):
    """Numba's pass with another worker."""

    _name = "pomp_pasting"

    def _do_work(
        self, state: Any, work_list: Any, block: Any, i: int, expr: Any, inline_worker: Any
    ) -> Any:
        return super()._do_work(state, work_list, block, i, expr, _Worker(state))


class Compiler(compiler.Compiler):
    """Numba's compiler; pass it to `numba.njit` as `pipeline_class`."""

    def define_pipelines(self) -> list[Any]:
        """Return what Numba's compiler does, with functions pasted quickly."""
        return [_quickened(manager) for manager in super().define_pipelines()]

    def compile_extra(self, func: Any) -> Any:
        """Compile a function while the garbage collector waits."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if was_enabled:
                gc.enable()


def _untyped_passes(state: Any, name: str = "untyped") -> Any:
    """Return the passes that translate a function, before the types of its arguments are known."""
    return _quickened(compiler.DefaultPassBuilder.define_untyped_pipeline(state, name))


def _quickened(manager: Any) -> Any:
    """Return a list of passes with ours in the place of Numba's."""
    manager.passes = [
        (_Pasting if one is InlineInlinables else one, text) for one, text in manager.passes
    ]
    manager.finalize()
    return manager

"""The launch loop of decision lists with counts on a GPU; imported only where there is one."""

from numba import cuda

from pomp.core.cuda import device_kernel
from pomp.engine.rule_lists import choose_in


@device_kernel
def choose_all(rules, constants, worlds, mode, senses, counts, choices):
    """Choose in every world, as `choose_in` does, with one thread each.

    Args:
        rules: the `RuleArrays`.
        constants: `[N]` int64, read.
        worlds: the `Worlds`, read.
        mode: `[B]` int64, read.
        senses: `[B]` int16, read.
        counts: `[B, N]` int32, scratch.
        choices: `[B]` int64, written.
    """
    index = cuda.grid(1)
    if index < len(worlds.pose):
        choose_in(index, rules, constants, worlds, mode, senses, counts, choices)

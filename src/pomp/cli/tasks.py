"""`pomp tasks`."""

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pomp.cli.output import say


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """List the fifteen tasks with their variants and options."""

    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the catalog."""
        from pomp.tasks.catalog import TASKS

        if self.json:
            say(json.dumps({"tasks": [_describe(task) for task in TASKS]}, indent=2))
            return 0
        for task in TASKS:
            size = f"{task.size[0]}x{task.size[1]}"
            ceiling = task.configure().ceiling
            say(f"{task.name:<13} {task.suite:<9} {size:<6} ceiling {ceiling:.3f}")
            say(f"  {task.summary}")
            for variant, options in task.variants.items():
                listed = " ".join(f"{name}={value}" for name, value in options.items())
                say(f"  --variant {variant:<6} {listed}".rstrip())
            for name, option in task.options.items():
                choices = f" ({'|'.join(option.choices)})" if option.choices else ""
                say(f"  --option {name}: {option.help}{choices}")
            if len(task.scales) > 1:
                say(f"  --scale {'|'.join(map(str, task.scales))}")
        return 0


def _describe(task: Any) -> dict[str, Any]:
    """Return what is to be known of a task, for JSON."""
    return {
        "name": task.name,
        "suite": task.suite,
        "summary": task.summary,
        "size": list(task.size),
        "ceiling": task.configure().ceiling,
        "variants": {
            variant: {
                name: plain(task.options[name].parse(name, value)) for name, value in given.items()
            }
            for variant, given in task.variants.items()
        },
        "options": {
            name: {"help": option.help, "choices": list(option.choices)}
            for name, option in task.options.items()
        },
        "scales": list(task.scales),
    }


def show(value: object) -> str:
    """Return an option's value as the command line takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def plain(value: object) -> object:
    """Return an option's value as JSON has it."""
    return float(value) if isinstance(value, Fraction) else value

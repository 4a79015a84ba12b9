"""Turn machines of the search into program machines, which can be printed and run anywhere."""

from pomp.dsl.vocabulary import LEAPS
from pomp.evolution.genome import Machines
from pomp.karel.sensor_set import SHIPPED, SensorSet
from pomp.machine.policy import ProgramMachine
from pomp.machine.sensors import print_condition
from pomp.machine.transitions import DecisionList, Rule
from pomp.tasks.task import Setting


def to_program_machine(
    setting: Setting, machines: Machines, row: int = 0, known: SensorSet = SHIPPED
) -> ProgramMachine:
    """Turn one machine of the search into a program machine.

    Args:
        setting: the task; the machine names its variant and options only where they are not the
            usual ones.
        machines: C machines.
        row: which of them.
        known: the sensors that their rules ask for.
    """
    plain, usual = setting.task.configure(), setting.task.configure(setting.variant)
    programs = tuple(" ".join(LEAPS.decode(ids)) for ids in machines.programs[row])
    start = (Rule(int(machines.start[row])),)
    after = tuple(_rules_of(machines, row, mode, known) for mode in range(machines.modes))
    return ProgramMachine(
        setting.task,
        programs,
        DecisionList(start, after, known.own),
        variant=setting.variant if setting.variant != plain.variant else None,
        options={
            name: str(value)
            for name, value in setting.options.items()
            if value != usual.options[name]
        },
    )


def _rules_of(machines: Machines, row: int, mode: int, known: SensorSet) -> tuple[Rule, ...]:
    """Return the rules that follow a mode; the last one is its default."""
    targets = [int(target) for target in machines.targets[row, mode] if target >= 0]
    conditions = [
        tuple(
            dict.fromkeys(
                print_condition(int(literal), known) for literal in literals if literal >= 0
            )
        )
        for literals in machines.literals[row, mode]
    ]
    rules = [
        Rule(_target(machines, target), when)
        for target, when in zip(targets, conditions, strict=False)
    ]
    return (*rules, Rule(_target(machines, int(machines.defaults[row, mode]))))


def _target(machines: Machines, target: int) -> int | None:
    """Return the mode that a target means, or None: stop."""
    return None if target == machines.modes else target

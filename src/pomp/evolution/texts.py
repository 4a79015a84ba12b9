"""Turn machines of the search into program machines, which can be printed and run, and back."""

import numpy as np

from pomp.core.errors import ConfigError
from pomp.dsl.parser import parse
from pomp.dsl.syntax import tokens_of
from pomp.dsl.vocabulary import LEAPS
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import (
    RULES,
    Machines,
    askable,
    has_forbidden,
    most_modes,
    sensors_of,
)
from pomp.karel.sensor_set import COUNTING, SHIPPED, SensorSet
from pomp.machine.policy import ProgramMachine
from pomp.machine.sensors import print_condition, read_condition
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


def from_program_machine(machine: ProgramMachine, config: EvolveConfig) -> Machines:
    """Turn a program machine into one of the search, alone.

    Args:
        machine: which.
        config: of the search, which says how large machines may be and what rules may ask for.

    Raises:
        ConfigError: it has no rules, or the search could not have found it; says why.
    """
    by, modes = machine.transition, len(machine.modes)
    if not isinstance(by, DecisionList):
        raise ConfigError(f"its transitions are a {by.kind}; a search takes machines with rules")
    if modes > (most := most_modes(config)):
        raise ConfigError(f"it has {modes} modes, the search at most {most} (--modes)")
    if len(by.start) > 1 or by.start[0].to is None:
        raise ConfigError("its first mode depends on what is seen; a search begins with one mode")
    literals = np.full((1, modes, RULES, 2), -1, np.int8)
    targets = np.full((1, modes, RULES), -1, np.int8)
    for mode, (*rules, _) in enumerate(by.after):
        if len(rules) > RULES:
            raise ConfigError(f"a mode has {len(rules)} rules with conditions, at most {RULES} fit")
        for place, rule in enumerate(rules):
            targets[0, mode, place] = modes if rule.to is None else rule.to
            found = _literals_of(rule, by, config)
            literals[0, mode, place, : len(found)] = found
    defaults = [modes if rules[-1].to is None else rules[-1].to for rules in by.after]
    programs = np.array([[_ids_of(program, config.tokens) for program in machine.modes]], np.uint8)
    if has_forbidden(programs, config):
        actions = " or ".join(config.without)
        raise ConfigError(f"its programs take {actions}; those of this search must not")
    start = np.array([by.start[0].to], np.int8)
    return Machines(programs, literals, targets, np.array([defaults], np.int8), start)


def _literals_of(rule: Rule, by: DecisionList, config: EvolveConfig) -> list[int]:
    """Return the conditions of a rule as literals of the search."""
    if len(rule.when) > 2:
        raise ConfigError(f"a rule has {len(rule.when)} conditions, at most 2 fit")
    if COUNTING in by.extras:
        raise ConfigError("its rules count; a search has no rules that do")
    known, may_ask, found = sensors_of(config), set(askable(config)), []
    for condition in rule.when:
        name = print_condition(read_condition(condition, by.known), by.known)
        if name.removeprefix("not ") not in known.names:
            raise ConfigError(f"it asks for '{name}', a sensor that the search lacks (--sensor)")
        literal = read_condition(name, known)
        if literal >> 1 not in may_ask:
            raise ConfigError(f"it asks for '{name}', which takes --sensors compass")
        found.append(literal)
    return found


def _ids_of(program: str, tokens: int) -> list[int]:
    """Return a program as padded token ids."""
    words = tokens_of(parse(program))
    if unknown := [word for word in words if word not in LEAPS.id_of]:
        raise ConfigError(f"a program has '{unknown[0]}', which a search does not know")
    if len(words) > tokens:
        raise ConfigError(f"a program has {len(words)} tokens, at most {tokens} fit (--set tokens)")
    return LEAPS.encode(words) + [LEAPS.pad] * (tokens - len(words))

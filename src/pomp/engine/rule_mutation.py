"""Random mutations of the rules of one machine, in place. Compiled."""

from pomp.core.compiling import routine, scalar
from pomp.core.streams import below

# Mutations of rules; the first six are of a mode's list.
_ADD, _REMOVE, _LITERAL, _NARROW, _SWAP, _TARGET, _DEFAULT, _START, _MUTATIONS = range(9)


@scalar
def _some_literal(stream, sensors):
    """Draw a random literal.

    Args:
        stream: `[1]` uint64, written.
        sensors: `[S]` int64, the numbers of those that it may be about.
    """
    sensor = sensors[below(stream, len(sensors))]
    return 2 * sensor + below(stream, 2)


@scalar
def _copy_rule(literals, targets, source, target):
    """Copy one rule of a mode's list over another.

    Args:
        literals: `[R, 2]` int8, written.
        targets: `[R]` int8, written.
        source: the place of the rule.
        target: where it goes.
    """
    targets[target] = targets[source]
    literals[target, 0] = literals[source, 0]
    literals[target, 1] = literals[source, 1]


@scalar
def _edit_list(stream, mutation, count, modes, sensors, literals, targets):
    """Make one mutation in the list of rules of one mode, in place.

    Args:
        stream: `[1]` uint64, written.
        mutation: which, one of the first six.
        count: how many rules the list has.
        modes: K.
        sensors: `[S]` int64, the numbers of those that rules may ask for.
        literals: `[R, 2]` int8, written.
        targets: `[R]` int8, written.
    """
    place = below(stream, count + (mutation == _ADD))
    if mutation == _ADD:
        for rule in range(count, place, -1):
            _copy_rule(literals, targets, rule - 1, rule)
        targets[place] = below(stream, modes + 1)
        literals[place, 0] = _some_literal(stream, sensors)
        literals[place, 1] = -1
    elif mutation == _REMOVE:
        for rule in range(place, count - 1):
            _copy_rule(literals, targets, rule + 1, rule)
        targets[count - 1] = -1
    elif mutation == _LITERAL:
        which = below(stream, 2) if literals[place, 1] >= 0 else 0
        literals[place, which] = _some_literal(stream, sensors)
    elif mutation == _NARROW:
        is_narrow = literals[place, 1] >= 0
        literals[place, 1] = -1 if is_narrow else _some_literal(stream, sensors)
    elif mutation == _SWAP:
        other = below(stream, count)
        kept = targets[place]
        targets[place] = targets[other]
        targets[other] = kept
    else:
        targets[place] = below(stream, modes + 1)


@routine
def mutate_rule(stream, sensors, literals, targets, defaults, start):
    """Mutate one rule, default or start of a machine, in place.

    Args:
        stream: `[1]` uint64, written.
        sensors: `[S]` int64, the numbers of those that rules may ask for.
        literals: `[K, R, 2]` int8, written.
        targets: `[K, R]` int8, written.
        defaults: `[K]` int8, written.
        start: `[1]` int8, written.
    """
    modes, most = len(defaults), targets.shape[1]
    mode = below(stream, modes)
    count = 0
    while count < most and targets[mode, count] >= 0:
        count += 1
    mutation = below(stream, _MUTATIONS)
    if mutation == _DEFAULT:
        defaults[mode] = below(stream, modes + 1)
    elif mutation == _START:
        start[0] = below(stream, modes)
    else:
        if count == 0:
            mutation = _ADD
        elif mutation == _ADD and count == most:
            mutation = _LITERAL
        _edit_list(stream, mutation, count, modes, sensors, literals[mode], targets[mode])

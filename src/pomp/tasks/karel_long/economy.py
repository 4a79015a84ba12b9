"""What the five long tasks share: every action costs, and the horizon can be stretched."""

from fractions import Fraction

from pomp.tasks.task import Constants, Setting

ACTION_COST = Fraction(1, 10_000)
MAX_STEPS = 50_000


def long_rules(setting: Setting, events: int, *own: int, fine: Fraction = Fraction(0)) -> Constants:
    """Rules of a task that pays 1 in all for `events` events; all money shrinks with the scale.

    Args:
        setting: the task's setting.
        events: how many events pay at scale 1.
        own: the task's further integers.
        fine: what one unit of the tally costs at scale 1.
    """
    return Constants(
        pay=Fraction(1, events * setting.scale),
        cost=ACTION_COST / setting.scale,
        fine=fine / setting.scale,
        own=own,
    )

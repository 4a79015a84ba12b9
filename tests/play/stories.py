"""A machine of three modes, and players of it, for the tests of this folder."""

import numpy as np

from pomp.machine.config import NetworkConfig
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList, NetworkTransition, Rule
from pomp.play.story import Acting, Watching

SWEEP = "DEF run m( pickMarker WHILE c( frontIsClear c) w( move pickMarker w) m)"
TURN = "DEF run m( turnLeft IF c( frontIsClear c) i( move i) turnLeft m)"
IDLE = "DEF run m( IF c( not c( frontIsClear c) c) i( IF c( frontIsClear c) i( move i) i) m)"
RULES = DecisionList(
    start=(Rule(0),),
    after=(
        (Rule(1),),
        (Rule(2, ("not markersPresent",)), Rule(0)),
        (Rule(None, ("not rightIsClear",)), Rule(0)),
    ),
)


def machine(task="Harvester", transition=RULES, **settings):
    return ProgramMachine(task, (SWEEP, TURN, IDLE), transition, **settings)


def random_network(size=(8, 8)):
    config = NetworkConfig(hidden=8)
    return NetworkTransition(config, size, 3, draw_weights(Shape(config, *size, 3), np.uint64(5)))


def watching(**settings):
    acting = machine(**settings)
    return Watching(acting, acting.configure(), 0, 8.0, greedy=False)


def acting():
    return Acting(machine().configure(), 0)


def plain(lines):
    """The texts of drawn lines, without their styles."""
    return ["".join(text for text, _ in line) for line in lines]

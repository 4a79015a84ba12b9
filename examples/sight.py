"""Sensors of your own: whether a marker is in sight, ahead, to the left or to the right.

    pomp evolve Seesaw --sensor sight:AHEAD --sensor sight:LEFT --sensor sight:RIGHT --out runs/seen
    pomp eval runs/seen/Seesaw/seed0/machine --allow sight

run in this folder, or with it on PYTHONPATH; `--allow` says that the machine's file may name this
module. A sensor's function reads one world and returns a bool. Compiled code checks no array
bounds; while writing one, `POMP_CACHE_DIR=$(mktemp -d) NUMBA_BOUNDSCHECK=1 pomp eval ...` does.
"""

from pomp.karel import COUNT, WALL, Sensor, scalar

FRONT, LEFT_HAND, RIGHT_HAND = 0, 3, 1  # quarter turns to the right


@scalar
def sees_marker(cells, constants, pose, turn):
    """Whether a cell shows a marker before the first wall, looking after some quarter turns."""
    step = constants[(pose + turn) & 3]
    cell = (pose >> 2) + step
    while cells[cell] & WALL == 0:
        if cells[cell] & COUNT != 0:
            return True
        cell += step
    return False


@scalar
def look_ahead(cells, constants, pose):
    """Whether a marker is in sight ahead."""
    return sees_marker(cells, constants, pose, FRONT)


@scalar
def look_left(cells, constants, pose):
    """Whether a marker is in sight to the left."""
    return sees_marker(cells, constants, pose, LEFT_HAND)


@scalar
def look_right(cells, constants, pose):
    """Whether a marker is in sight to the right."""
    return sees_marker(cells, constants, pose, RIGHT_HAND)


AHEAD = Sensor(
    name="marker in sight",
    holds="a marker is in sight",
    fails="no marker is in sight",
    read=look_ahead,
)
LEFT = Sensor(
    name="marker in sight left",
    holds="a marker is in sight to the left",
    fails="no marker is in sight to the left",
    mirror="marker in sight right",
    read=look_left,
)
RIGHT = Sensor(
    name="marker in sight right",
    holds="a marker is in sight to the right",
    fails="no marker is in sight to the right",
    mirror="marker in sight left",
    read=look_right,
)

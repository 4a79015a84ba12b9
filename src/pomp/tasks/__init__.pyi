from pomp.core.compiling import scalar as scalar
from pomp.karel.dynamics import (
    ACTIONS as ACTIONS,
    DONE as DONE,
    EAST as EAST,
    FIRST_CONSTANT as FIRST_CONSTANT,
    FIRST_SLOT as FIRST_SLOT,
    HEIGHT as HEIGHT,
    NORTH as NORTH,
    SCORE as SCORE,
    SOUTH as SOUTH,
    TALLY as TALLY,
    UNIT as UNIT,
    WEST as WEST,
    WIDTH as WIDTH,
    Facing as Facing,
    handle as handle,
    is_moving as is_moving,
    pose_at as pose_at,
    travel as travel,
)
from pomp.karel.world import Map as Map
from pomp.tasks.catalog import TASKS as TASKS, find_task as find_task
from pomp.tasks.layouts import (
    any_size as any_size,
    count_marked as count_marked,
    fill as fill,
    room as room,
    wall_in as wall_in,
)
from pomp.tasks.random_world import RANDOM_WORLD as RANDOM_WORLD
from pomp.tasks.task import (
    Constants as Constants,
    Option as Option,
    Setting as Setting,
    Start as Start,
    Task as Task,
)

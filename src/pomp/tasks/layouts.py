"""Rooms, stairs and cells that layouts and starts are made of.

The first part is compiled and fills the cells of a world that starts out all zero. The second
part is the same in plain Python, for listing every start of a task.
"""

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import scalar
from pomp.karel.dynamics import COUNT, FLAG, HEIGHT, NO_FLAG, WALL, WIDTH, ZERO
from pomp.karel.world import LARGEST, SMALLEST


@scalar
def fill(cells, constants, top, left, rows, cols, byte):
    """Write a byte into every cell of a rectangle."""
    for row in range(top, top + rows):
        for col in range(left, left + cols):
            cells[row * constants[WIDTH] + col] = byte


@scalar
def wall_in(cells, constants):
    """An empty room: walls around, zeros inside."""
    height, width = constants[HEIGHT], constants[WIDTH]
    fill(cells, constants, 0, 0, height, width, WALL)
    fill(cells, constants, 1, 1, height - 2, width - 2, 0)


@scalar
def build_stairs(cells, constants):
    """A walled room with stairs from the lower left to the upper right, two walls thick."""
    wall_in(cells, constants)
    height, width = constants[HEIGHT], constants[WIDTH]
    for col in range(2, width):
        cells[(height + 1 - col) * width + col] = WALL
        cells[(height - col) * width + col] = WALL


@scalar
def flag_stairs(cells, constants):
    """Set FLAG on the stair cells and those right above them; everywhere else clear it."""
    height, width = constants[HEIGHT], constants[WIDTH]
    for row in range(1, height - 1):
        for col in range(1, width - 1):
            on_stairs = row + col == height - 1 or row + col == height - 2
            kept = cells[row * width + col] & NO_FLAG
            cells[row * width + col] = kept | (FLAG if on_stairs else 0)


@scalar
def set_zero_flags(cells):
    """Set the zero flag of every cell without markers, walls included."""
    for cell in range(len(cells)):
        if cells[cell] & COUNT == 0:
            cells[cell] |= ZERO


@scalar
def count_marked(cells):
    """How many cells show a marker."""
    marked = 0
    for cell in range(len(cells)):
        marked += cells[cell] & COUNT != 0
    return marked


@scalar
def count_free(cells):
    """How many cells are not walls."""
    free = 0
    for cell in range(len(cells)):
        free += cells[cell] & WALL == 0
    return free


@scalar
def find_marked(cells, constants, top, left, rows, cols):
    """The only marked cell of a rectangle, or -1 if there is none or more than one."""
    found = -1
    for row in range(top, top + rows):
        for col in range(left, left + cols):
            cell = row * constants[WIDTH] + col
            if cells[cell] & COUNT:
                if found >= 0:
                    return -1
                found = cell
    return found


@scalar
def find_only_marked(cells, constants):
    """The only marked cell of the world, or -1 if there is none or more than one."""
    return find_marked(cells, constants, 0, 0, constants[HEIGHT], constants[WIDTH])


@scalar
def kth_free(cells, k):
    """The k-th cell that is not a wall, in row-major order."""
    for cell in range(len(cells)):
        if cells[cell] & WALL == 0:
            if k == 0:
                return cell
            k -= 1
    return -1


def room(height: int, width: int) -> NDArray[np.uint8]:
    """Return an empty room as a map's grid, `[H, W]` uint8."""
    grid = np.full((height, width), WALL, np.uint8)
    grid[1:-1, 1:-1] = 0
    return grid


def stairs(height: int, width: int) -> NDArray[np.uint8]:
    """Return the stairs of `build_stairs` as a map's grid, `[H, W]` uint8."""
    grid = room(height, width)
    for col in range(2, width):
        grid[[height + 1 - col, height - col], col] = WALL
    return grid


def any_size(height: int, width: int, smallest: tuple[int, int] = (SMALLEST, SMALLEST)) -> str:
    """What is wrong with a size for a task that takes any from `smallest` up ("": nothing)."""
    if height < smallest[0] or width < smallest[1]:
        return f"at least {smallest[0]}x{smallest[1]}"
    return f"at most {LARGEST}x{LARGEST}" if max(height, width) > LARGEST else ""

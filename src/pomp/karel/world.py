"""Worlds as values: batches of them in arrays, and single ones as text."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from operator import index
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from pomp.core.arrays import check_array, read_only
from pomp.core.cuda import check_device, empty_on_device, is_on_device, to_device, to_host
from pomp.core.errors import WorldError
from pomp.karel.dynamics import ACTIONS, COUNT, DONE, FIRST_SLOT, TALLY, WALL, Facing

SMALLEST, LARGEST = 3, 128
"""Rows and columns a grid may have."""

PAY_SLOTS = (ACTIONS, TALLY)
"""Slots of memory that decide what is paid; no task of the package asks them what happens next."""

SHOWN_WORLDS = 8
"""Pictures of a batch in a notebook."""

AGENTS, AGENTS_ON_MARKER = "^>v<", "nesw"
"""The agent in a map's text, by its facing; on a free cell, and on one with markers."""

_UPPER_AGENTS = "NESW"


@dataclass(frozen=True)
class Map:
    """What a world looks like before a task takes it up: walls, markers, agent.

    Attributes:
        grid: `[H, W]` uint8: marker counts, and `WALL`; a copy that cannot be written.
        row: the agent's row.
        col: the agent's column.
        facing: the agent's heading.
    """

    grid: NDArray[np.uint8]
    row: int
    col: int
    facing: Facing

    def __post_init__(self) -> None:
        grid, row, col = self.grid, self.row, self.col
        check_array("the grid of a map", grid, np.uint8, (None, None), WorldError)
        if min(grid.shape) < SMALLEST or max(grid.shape) > LARGEST:
            size = "x".join(map(str, grid.shape))
            raise WorldError(f"a map has {SMALLEST} to {LARGEST} rows and columns, got {size}")
        if not np.all(rings_of(grid) & WALL):
            raise WorldError("the outer ring of a map must be walls ('#')")
        if (grid & ~np.uint8(COUNT | WALL)).any():
            raise WorldError(f"cells of a map hold 0 to {COUNT} markers, and {WALL} for a wall")
        for name in ("row", "col", "facing"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                raise WorldError(f"{name} of a map's agent is a whole number, got {number!r:.80}")
        if not (0 < row < len(grid) - 1 and 0 < col < grid.shape[1] - 1) or grid[row, col] & WALL:
            raise WorldError(f"the agent must stand on a free cell, got row {row}, column {col}")
        if not 0 <= self.facing < len(Facing):
            raise WorldError(f"an agent's facing is 0 to {len(Facing) - 1}, got {self.facing}")
        object.__setattr__(self, "grid", read_only(grid.copy()))

    @classmethod
    def from_text(cls, text: str) -> "Map":
        """Read a map.

        `#` is a wall, `.` or a blank a free cell, `m` or a digit a cell with that many markers,
        `^ > v <` (or `N E S W`) the agent, `n e s w` the agent on a cell with one marker.

        Raises:
            WorldError: the text is not a rectangle with walls around it and one agent.
        """
        if not isinstance(text, str):
            raise WorldError(f"a map is given as text, got a {type(text).__name__}")
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            raise WorldError("a map needs lines of '#', '.', digits and one agent, got no text")
        width = max(map(len, lines))
        if not (SMALLEST <= len(lines) <= LARGEST and SMALLEST <= width <= LARGEST):
            size = f"{len(lines)}x{width}"
            raise WorldError(f"a map has {SMALLEST} to {LARGEST} rows and columns, got {size}")
        grid = np.zeros((len(lines), width), np.uint8)
        agents = []
        for row, line in enumerate(lines):
            if len(line) != width:
                got = f"line {row + 1} has {len(line)} characters, others {width}"
                raise WorldError(f"the lines of a map are equally long: {got}")
            for col, sign in enumerate(line):
                grid[row, col] = _cell_of(sign, row, col)
                for signs in (AGENTS, AGENTS_ON_MARKER, _UPPER_AGENTS):
                    if sign in signs:
                        agents.append((row, col, Facing(signs.index(sign))))
        if len(agents) != 1:
            raise WorldError(f"a map has one agent, one of '^>v<nesw', got {len(agents)}")
        return cls(grid, *agents[0])

    @classmethod
    def from_cells(cls, size: tuple[int, int], cells: Any, pose: int) -> "Map":
        """Return what a world looks like.

        Args:
            size: rows and columns.
            cells: `[H * W]` integers from 0 to 255, the bytes of `pomp.karel.dynamics`; of these
                markers and walls are taken.
            pose: four times the agent's cell plus its facing.

        Raises:
            WorldError: there are more or fewer cells, or it is no map.
        """
        grid = np.asarray(cells, np.uint8)
        if grid.size != size[0] * size[1]:
            got = f"{size[0]}x{size[1]} and {grid.size} cells"
            raise WorldError(f"a map has as many cells as rows times columns, got {got}")
        row, col = divmod(int(pose) >> 2, max(size[1], 1))
        return cls(grid.reshape(size) & np.uint8(COUNT | WALL), row, col, Facing(int(pose) & 3))

    def _repr_png_(self) -> bytes:
        """A picture, for notebooks."""
        from pomp.karel.render import draw_map, png_bytes

        return png_bytes(draw_map(self))

    def to_text(self) -> str:
        """The map as text; `from_text` reads it back unless the agent stands on two or more."""
        lines = []
        for row, cells in enumerate(self.grid):
            signs = [_sign_of(int(cell)) for cell in cells]
            if row == self.row:
                on_marker = self.grid[row, self.col] & COUNT
                signs[self.col] = (AGENTS_ON_MARKER if on_marker else AGENTS)[self.facing]
            lines.append("".join(signs))
        return "\n".join(lines)


def rings_of(grid: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the cells of the outer rings of a `grid`, `[..., H, W]` uint8: `[..., N]` uint8."""
    sides = (grid[..., 0, :], grid[..., -1, :], grid[..., :, 0], grid[..., :, -1])
    return np.concatenate(sides, axis=-1)


def _cell_of(sign: str, row: int, col: int) -> int:
    if sign == "#":
        return WALL
    if sign in ". " + AGENTS + _UPPER_AGENTS:
        return 0
    if sign == "m" or sign in AGENTS_ON_MARKER:
        return 1
    if sign.isascii() and sign.isdigit():
        return int(sign)
    raise WorldError(f"unknown sign '{sign}' in a map at line {row + 1}, column {col + 1}")


def _sign_of(cell: int) -> str:
    if cell & WALL:
        return "#"
    count = cell & COUNT
    return "." if count == 0 else ("m" if count == 1 else (str(count) if count < 10 else "+"))


class Worlds(NamedTuple):
    """The arrays of B worlds as compiled code takes them.

    Attributes:
        cells: `[B, H * W]` uint8, the bytes of `pomp.karel.dynamics`.
        pose: `[B]` int32, four times the agent's cell plus its facing.
        memory: `[B, M]` int32, the task's integers.
        stream: `[B]` uint64, the random streams.
    """

    cells: Any
    pose: Any
    memory: Any
    stream: Any


@dataclass(frozen=True)
class WorldBatch:
    """The states of B worlds of one size.

    The arrays on the CPU are read-only: `dataclasses.replace(worlds, pose=...)` makes other worlds.
    Compiled code checks nothing, so worlds that were not made by the engine are checked before they
    first run (`pomp.engine.checks`), and remember for which task.

    Attributes:
        task: the name of the task they were made for.
        height: rows.
        width: columns.
        cells: `[B, H * W]` uint8, the bytes of `pomp.karel.dynamics`.
        pose: `[B]` int32, 4 * cell + facing.
        memory: `[B, M]` int32, the task's integers.
        stream: `[B]` uint64, the random streams.
        arrays: these four together.
        checked_for: the task whose states these are; None: they are checked when they run.
    """

    task: str
    height: int
    width: int
    cells: NDArray[np.uint8]
    pose: NDArray[np.int32]
    memory: NDArray[np.int32]
    stream: NDArray[np.uint64]
    arrays: Worlds = field(init=False, repr=False, compare=False)
    _memory: Worlds = field(init=False, repr=False, compare=False)
    checked_for: object = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Take copies of arrays that come from elsewhere; the shapes must go together.

        Raises:
            WorldError: says which does not.
        """
        if not isinstance(self.task, str):
            raise WorldError(f"worlds have the name of a task, got {self.task!r:.80}")
        for side in (self.height, self.width):
            if not isinstance(side, int | np.integer) or not SMALLEST <= side <= LARGEST:
                sizes = f"{SMALLEST} to {LARGEST} rows and columns"
                raise WorldError(f"worlds have {sizes}, got {side!r:.40}")
        check_array("the poses of worlds", self.pose, np.int32, (None,), WorldError)
        count, size = self.pose.shape[0], self.height * self.width
        check_array("the cells of these worlds", self.cells, np.uint8, (count, size), WorldError)
        check_array("the memory of these worlds", self.memory, np.int32, (count, None), WorldError)
        check_array("the streams of these worlds", self.stream, np.uint64, (count,), WorldError)
        if self.memory.shape[1] < FIRST_SLOT:
            least = f"at least {FIRST_SLOT} integers of memory"
            raise WorldError(f"worlds have {least}, got {self.memory.shape[1]}")
        arrays: tuple[Any, ...] = (self.cells, self.pose, self.memory, self.stream)
        if len({is_on_device(array) for array in arrays}) > 1:
            raise WorldError("the arrays of worlds are on one device, got some on each")
        if not is_on_device(self.cells):
            arrays = tuple(np.array(array, order="C", copy=True) for array in arrays)
        self._keep(Worlds(*arrays))

    def _keep(self, arrays: Worlds, checked_for: object = None) -> None:
        """Hold arrays, which only compiled code writes; `__getattr__` shows them read-only."""
        own = vars(self)
        own["_memory"], own["checked_for"] = arrays, checked_for
        for name in Worlds._fields:
            own.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        """Return one of the arrays so that it cannot be written; made when first asked for."""
        own = vars(self)
        if name == "arrays":
            own[name] = Worlds(*(getattr(self, one) for one in Worlds._fields))
        elif name in Worlds._fields and "_memory" in own:
            array = getattr(self._memory, name)
            own[name] = array if is_on_device(array) else read_only(array)
        else:
            raise AttributeError(f"worlds have no '{name}'")
        return own[name]

    @classmethod
    def holding(
        cls, task: str, height: int, width: int, arrays: Iterable[Any], checked_for: object = None
    ) -> "WorldBatch":
        """Return worlds in memory that the engine has made, which is neither copied nor checked.

        Args:
            task: the name of the task.
            height: rows.
            width: columns.
            arrays: those of `Worlds`.
            checked_for: the task whose kernels may run them; None: they are checked first.
        """
        batch = object.__new__(cls)
        own = vars(batch)
        own["task"], own["height"], own["width"] = task, height, width
        own["_memory"], own["checked_for"] = Worlds(*arrays), checked_for
        return batch

    def vouch(self, task: object) -> "WorldBatch":
        """Remember that these worlds are states of a task, whose kernels may run them."""
        vars(self)["checked_for"] = task
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Come back from elsewhere as worlds that nobody has checked."""
        return WorldBatch, (self.task, self.height, self.width, *self._memory)

    @classmethod
    def empty(cls, task: str, worlds: int, height: int, width: int, slots: int) -> "WorldBatch":
        """Room for so many worlds, all zero."""
        arrays = (
            np.zeros((worlds, height * width), np.uint8),
            np.zeros(worlds, np.int32),
            np.zeros((worlds, slots), np.int32),
            np.zeros(worlds, np.uint64),
        )
        return cls.holding(task, height, width, arrays)

    def __len__(self) -> int:
        return len(self._memory.pose)

    def __getitem__(self, place: int | slice) -> "WorldBatch":
        """Return a copy of one world, as a batch of one, or of the worlds of a slice.

        Raises:
            IndexError: there are fewer worlds.
        """
        count = len(self)
        if isinstance(place, slice):
            return self.take(range(*place.indices(count)))
        return self.take([self._number_of(place)])

    def _number_of(self, place: Any) -> int:
        """Return which world a number means; those below zero are counted from the end.

        Raises:
            IndexError: there are fewer worlds.
            TypeError: it is no whole number.
        """
        if not isinstance(place, SupportsIndex) or isinstance(place, np.ndarray):
            wanted = "worlds are numbered, or taken by slices"
            raise TypeError(f"{wanted}: {place!r:.80} cannot be interpreted as an integer")
        number, count = index(place), len(self)
        if not -count <= number < count:
            raise IndexError(f"world {number} was asked for, there are {count}, counted from 0")
        return number % count

    def __iter__(self) -> Iterator["WorldBatch"]:
        """Yield a copy of each world, as a batch of one."""
        return (self[number] for number in range(len(self)))

    def _with(self, arrays: Iterable[Any]) -> "WorldBatch":
        """A batch of the same kind with other arrays, checked if these are."""
        return WorldBatch.holding(self.task, self.height, self.width, arrays, self.checked_for)

    def allocate(self, worlds: int) -> "WorldBatch":
        """Return memory for so many worlds of this kind, on the same device; not initialised."""
        make: Any = empty_on_device if self.device == "cuda" else np.empty
        parts = (make((worlds, *array.shape[1:]), array.dtype) for array in self._memory)
        return self._with(parts).vouch(None)

    def joined(self, other: "WorldBatch") -> "WorldBatch":
        """Two batches on the CPU, one behind the other."""
        return join_worlds([self, other])

    @property
    def device(self) -> str:
        """`cpu` or `cuda`."""
        return "cuda" if is_on_device(self._memory.cells) else "cpu"

    def to(self, device: str) -> "WorldBatch":
        """The same worlds on a device; themselves if they are there already."""
        device = check_device(device)
        if device == self.device:
            return self
        move: Any = to_device if device == "cuda" else to_host
        return self._with(move(array) for array in self._memory)

    @property
    def grid(self) -> NDArray[np.uint8]:
        """`[B, H, W]`: the cells in rows; a view that cannot be written."""
        return self.cells.reshape(-1, self.height, self.width)

    @property
    def markers(self) -> NDArray[np.uint8]:
        """`[B, H * W]` uint8: how many markers each cell holds; the batch must be on the CPU."""
        return self.cells & np.uint8(COUNT)

    @property
    def cell(self) -> NDArray[np.int32]:
        """`[B]`: the indices of the agents' cells."""
        return self.pose >> 2

    @property
    def row(self) -> NDArray[np.int32]:
        """`[B]`: the agents' rows."""
        return self.cell // self.width

    @property
    def col(self) -> NDArray[np.int32]:
        """`[B]`: the agents' columns."""
        return self.cell % self.width

    @property
    def facing(self) -> NDArray[np.int32]:
        """`[B]`: the agents' headings."""
        return self.pose & 3

    @property
    def done(self) -> NDArray[np.bool_]:
        """`[B]`: the tasks' done flags."""
        return self.memory[:, DONE] != 0

    @property
    def actions(self) -> NDArray[np.int32]:
        """`[B]`: actions since the start of the episode."""
        return self.memory[:, ACTIONS]

    def take(self, indices: Sequence[int] | NDArray[np.integer]) -> "WorldBatch":
        """Return a copy of the worlds at `indices` `[N]`, in that order; repeats are fine."""
        if self.device == "cuda":
            return self.to("cpu").take(indices).to("cuda")
        found = np.asarray(indices)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise WorldError(f"worlds are taken by a list of their numbers, got {indices!r:.80}")
        chosen = found.astype(np.intp, copy=False)
        try:
            return self._with([np.ascontiguousarray(array[chosen]) for array in self._memory])
        except IndexError:
            got = f"{indices!r:.80}"
            raise WorldError(f"there are {len(self)} worlds, counted from 0, got {got}") from None

    def copy(self) -> "WorldBatch":
        """An independent copy."""
        return self.take(np.arange(len(self)))

    def _repr_html_(self) -> str:
        """The first worlds as pictures side by side, for notebooks."""
        shown = [self.map_of(world)._repr_png_() for world in range(min(len(self), SHOWN_WORLDS))]
        pictures = (base64.b64encode(picture).decode() for picture in shown)
        images = "".join(f'<img src="data:image/png;base64,{code}"> ' for code in pictures)
        worlds = "1 world" if len(self) == 1 else f"{len(self)} worlds"
        more = ", the first of them" if len(self) > SHOWN_WORLDS else ""
        return f"<div>{worlds} of {escape(self.task)} on {self.device}{more}<br>{images}</div>"

    def map_of(self, world: int) -> Map:
        """Walls, markers and agent of one world."""
        if self.device == "cuda":
            return self.to("cpu").map_of(world)
        world = self._number_of(world)
        return Map.from_cells((self.height, self.width), self.cells[world], self.pose[world])

    def to_text(self, world: int = 0) -> str:
        """One world as a map; see `Map.to_text`."""
        return self.map_of(world).to_text()


def memory_of(worlds: WorldBatch) -> Worlds:
    """Return the memory of worlds, for compiled code, which writes there.

    Whoever else writes there answers for it that these are still states of their task.
    """
    return worlds._memory


def join_worlds(batches: Sequence[WorldBatch]) -> WorldBatch:
    """Batches of one kind on the CPU, one behind the other."""
    columns = zip(*(batch._memory for batch in batches), strict=True)
    first = batches[0]
    owner = first.checked_for
    is_one = all(batch.checked_for is owner for batch in batches)
    joined = (np.concatenate(column) for column in columns)
    kind = (first.task, first.height, first.width)
    return WorldBatch.holding(*kind, joined, owner if is_one else None)

"""What requests are answered with, whichever way they come."""

import gzip
import json
from pathlib import Path
from typing import Any

from pomp.core.errors import ConfigError, PompError
from pomp.core.extras import LEARN, is_installed
from pomp.core.schemas import FREE, NAME, Listed, Record
from pomp.core.storage import read_json
from pomp.engine.starts import draw_starts
from pomp.karel.world import Map
from pomp.machine.policy import MACHINE_FILE, ProgramMachine
from pomp.machine.zoo import KINDS, PREFIX, TEXT, ZOO, best_kind, zoo_tasks
from pomp.studio.asking import EpisodeAsked, ExportAsked, TextAsked, WorldAsked, WorldQuery
from pomp.studio.exports import animate, draw_frame
from pomp.studio.finding import (
    RUN_PREFIX,
    Root,
    check_size,
    find_machine,
    find_named_task,
    means_program,
    place_of,
    read_text_machine,
    set_up,
    size_of,
    tell_error,
)
from pomp.studio.limits import LIMITS
from pomp.studio.machine_data import count_nested, machine_data
from pomp.studio.packing import episode_data, world_data
from pomp.studio.pages import make_page
from pomp.studio.recording import RecordedEpisode, Watch, record_episode

_ABOUT = Record(
    {"modes": Listed(FREE), "transition": Record({"kind": NAME}, is_open=True)}, is_open=True
)


def to_bytes(data: Any) -> bytes:
    """Return data as JSON in plain ASCII, whatever texts it holds; what is no number is null."""
    try:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:  # a file's infinity
        text = json.dumps(json.loads(json.dumps(data), parse_constant=lambda _: None))
    return text.encode("ascii")


def load_asked(asked: EpisodeAsked, root: Root) -> ProgramMachine:
    """Return the machine of a request, set up in the task and on the grid that it asks for.

    Raises:
        PompError: there is no such machine, or it cannot act there.
    """
    if (asked.machine is None) == (asked.text is None):
        raise ConfigError("an episode is that of a machine (its name) or of a text: give one")
    if asked.text is not None:
        machine = read_text_machine(asked.text, asked.task)
    else:
        assert asked.machine is not None
        machine = find_machine(asked.machine, root)
    size = size_of(asked.size)
    if asked.world is not None:
        size = (asked.world.size[0], asked.world.size[1])
    return set_up(machine, asked.task, size)


def record_asked(asked: EpisodeAsked, root: Root, watch: Watch) -> RecordedEpisode:
    """Record the episode that a request asks for.

    Raises:
        PompError: it cannot be played.
    """
    machine = load_asked(asked, root)
    deepest = max(map(count_nested, machine.modes))
    if deepest > LIMITS.nested:
        most = f"loops within one another are shown up to a depth of {LIMITS.nested}"
        raise ConfigError(f"{most}, got {deepest}")
    setting = machine.configure(asked.scale)
    check_size((setting.height, setting.width))
    start = None if asked.world is None else _map_of(asked.world)
    return record_episode(
        machine, seed=asked.seed, scale=asked.scale, greedy=asked.greedy, start=start, watch=watch
    )


def _map_of(world: WorldAsked) -> Map:
    return Map.from_cells((world.size[0], world.size[1]), world.cells, world.pose)


def answer_episode(asked: EpisodeAsked, root: Root, watch: Watch) -> bytes:
    """Return an episode as JSON, compressed by gzip."""
    episode = record_asked(asked, root, watch)
    return gzip.compress(to_bytes(episode_data(episode, asked.machine)), 6, mtime=0)


def answer_page(asked: EpisodeAsked, root: Root, watch: Watch) -> bytes:
    """Return an episode as a page of its own."""
    return make_page(record_asked(asked, root, watch), asked.machine).encode()


def answer_export(asked: ExportAsked, root: Root, watch: Watch) -> bytes:
    """Return a picture or an animation of an episode."""
    episode = record_asked(asked, root, watch)
    if asked.format == "gif":
        return animate(episode, asked.first, asked.last, asked.every, watch)
    return draw_frame(episode, asked.format, asked.frame)


def key_of(asked: EpisodeAsked) -> str | None:
    """Return what tells a request from others with other answers; None: its file may change."""
    if asked.machine is not None and asked.machine.startswith(RUN_PREFIX):
        return None
    return asked.model_dump_json()


def answer_check(asked: TextAsked) -> dict[str, Any]:
    """Return what a text is, or what is wrong in it and where."""
    kind = "program" if means_program(asked.text) else "machine"
    try:
        machine = read_text_machine(asked.text, asked.task)
        return {"kind": kind, "error": None, "place": None, "machine": machine_data(machine)}
    except PompError as error:
        told = {"error": tell_error(error), "place": place_of(error, asked.text)}
        return {"kind": kind, **told, "machine": None}


def answer_world(asked: WorldQuery) -> dict[str, Any]:
    """Return a start of a task."""
    setting = find_named_task(asked.task).configure(size=size_of(asked.size), scale=asked.scale)
    return {"world": world_data(draw_starts(setting, 1, asked.seed))}


def list_zoo() -> list[dict[str, Any]]:
    """Return the machines of the zoo that can be played here; no network is loaded for it."""
    kinds = KINDS if is_installed(LEARN) else (TEXT,)
    places = [(task, kind, ZOO / task / kind) for task in zoo_tasks() for kind in kinds]
    return [
        {
            "name": f"{PREFIX}{task}/{kind}",
            "task": task,
            "is_best": kind == best_kind(task),
            **_about(task, folder),
        }
        for task, kind, folder in places
        if folder.is_dir()
    ]


def _about(task: str, folder: Path) -> dict[str, Any]:
    """Return headline, kind and number of modes of a machine of the zoo, from its file alone."""
    told = read_json(folder / MACHINE_FILE, "machine", _ABOUT)
    count, kind = len(told["modes"]), told["transition"]["kind"]
    modes = "1 mode" if count == 1 else f"{count} modes"
    headline = f"{task}: {modes}, transitions by {kind}"
    return {"headline": headline, "kind": kind, "modes": count}

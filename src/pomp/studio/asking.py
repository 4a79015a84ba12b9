"""What requests may say: models that refuse everything else before any work begins."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pomp.core.configs import MOST_SEED
from pomp.studio.limits import LIMITS

Name = Annotated[str, Field(min_length=1, max_length=300)]
MachineName = Annotated[str, Field(min_length=1, max_length=300, examples=["zoo:Harvester/text"])]
TaskName = Annotated[str, Field(pattern="^[A-Za-z]{1,40}$", examples=["Harvester"])]
Size = Annotated[str, Field(max_length=9, examples=["8x8"])]
Seed = Annotated[int, Field(ge=0, le=MOST_SEED)]
Scale = Annotated[int, Field(ge=1, le=64)]
Text = Annotated[str, Field(max_length=LIMITS.text, examples=["DEF run m( move m)"])]
Side = Annotated[int, Field(ge=1, le=LIMITS.side)]
Byte = Annotated[int, Field(ge=0, le=255)]
Frame = Annotated[int, Field(ge=0, le=1_000_000)]


class _Asked(BaseModel):
    """The body of a request: nothing but what is listed, and of the types that are listed."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Query(BaseModel):
    """The query of a request: nothing but what is listed."""

    model_config = ConfigDict(extra="forbid")


class WorldAsked(_Asked):
    """A start that was edited, as `docs/STUDIO.md` describes worlds."""

    size: Annotated[list[Side], Field(min_length=2, max_length=2)]
    cells: Annotated[list[Byte], Field(max_length=LIMITS.cells)]
    pose: Annotated[int, Field(ge=0, lt=4 * LIMITS.cells)]


class EpisodeAsked(_Asked):
    """An episode: of a machine by name, or of a text."""

    machine: MachineName | None = None
    text: Text | None = None
    task: TaskName | None = None
    seed: Seed = 0
    scale: Scale = 1
    size: Size | None = None
    greedy: bool = False
    world: WorldAsked | None = None


class ExportAsked(EpisodeAsked):
    """A picture of an episode: a frame, or some of them as an animation."""

    format: Literal["gif", "png", "svg"] = "png"
    frame: Frame | None = None
    first: Frame = 0
    last: Frame | None = None
    every: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class TextAsked(_Asked):
    """A text that is to be checked."""

    text: Text
    task: TaskName | None = None


class EpisodeQuery(_Query):
    """An episode of a machine by name."""

    machine: MachineName
    task: TaskName | None = None
    seed: Seed = 0
    scale: Scale = 1
    size: Size | None = None
    greedy: bool = False


class WorldQuery(_Query):
    """A start of a task."""

    task: TaskName
    seed: Seed = 0
    scale: Scale = 1
    size: Size | None = None


class MachineQuery(_Query):
    """A machine."""

    machine: MachineName


class ChartsQuery(_Query):
    """Runs whose curves are wanted."""

    run: Annotated[list[Name], Field(min_length=1, max_length=50)]
    since: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)] = 0.0


class SpaceQuery(_Query):
    """An embedding."""

    name: Annotated[str, Field(pattern="^[a-z]{1,20}$")] = "best"


class PointQuery(SpaceQuery):
    """A point of the map of an embedding."""

    x: Annotated[float, Field(ge=-1e3, le=1e3, allow_inf_nan=False)]
    y: Annotated[float, Field(ge=-1e3, le=1e3, allow_inf_nan=False)]


class Refusal(BaseModel):
    """What is answered to a request that cannot be met."""

    error: str
    place: dict[str, int] | None = None

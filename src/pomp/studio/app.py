"""The server's application: what `docs/STUDIO.md` says requests are answered with."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from pomp.core.errors import (
    DataFileError,
    MachineSyntaxError,
    PompError,
    UnknownNameError,
    abridge,
)
from pomp.core.texts import visible
from pomp.studio import answers, asking
from pomp.studio.desk import AbandonedError, BusyError, Desk
from pomp.studio.exports import MEDIA
from pomp.studio.finding import Root, find_machine, tell_error
from pomp.studio.guard import LOOPBACK, Guard
from pomp.studio.limits import LIMITS
from pomp.studio.machine_data import machine_data, task_data
from pomp.studio.pages import STATIC
from pomp.studio.recording import MOST_MOMENTS, Watch
from pomp.studio.run_lists import chart_runs, list_runs
from pomp.studio.space_map import decode_at, list_spaces, open_plane
from pomp.tasks.catalog import TASKS
from pomp.version import __version__

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": asking.Refusal} for status in (400, 403, 404, 413, 422, 429)
}
_JSON = "application/json"
_GONE = 499  # nobody reads it


def make_app(root: Path | None = None, host: str = LOOPBACK[0]) -> FastAPI:
    """Return the application.

    Args:
        root: the folder below which runs and machines are served; None: there is none.
        host: what the server listens on, which requests may name.
    """
    desk = Desk()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="pomp studio", version=__version__, openapi_url="/api/openapi.json", docs_url=None,
        redoc_url=None, lifespan=lifespan, responses=_REFUSALS, redirect_slashes=False,
    )  # fmt: skip
    app.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=5)
    app.add_middleware(Guard, host=host)
    app.add_exception_handler(PompError, _refuse)
    app.add_exception_handler(OSError, _refuse_gone)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_http)
    _add_lists(app, Root(root))
    _add_episodes(app, Root(root), desk)
    _add_spaces(app, desk)
    _add_page(app)
    return app


def _answer(data: Any) -> Response:
    return Response(answers.to_bytes(data), media_type=_JSON)


def _add_lists(app: FastAPI, root: Root) -> None:
    """Add what is answered at once: lists, texts that are checked, starts."""

    @app.get("/api/about")
    def about() -> Response:
        """Say which version answers, for which runs, and within which limits."""
        limits = {"text": LIMITS.text, "cells": LIMITS.cells, "moments": MOST_MOMENTS}
        name = None if root.path is None else root.path.name
        return _answer({"pomp": __version__, "root": name, "limits": limits})

    @app.get("/api/tasks")
    def tasks() -> Response:
        """List the tasks."""
        return _answer({"tasks": [task_data(task) for task in TASKS]})

    @app.get("/api/machines")
    def machines() -> Response:
        """List the machines of the zoo."""
        return _answer({"machines": answers.list_zoo()})

    @app.get("/api/machine")
    def machine(asked: Annotated[asking.MachineQuery, Query()]) -> Response:
        """Return a machine."""
        return _answer(machine_data(find_machine(asked.machine, root), asked.machine))

    @app.post("/api/check")
    def check(asked: asking.TextAsked) -> Response:
        """Say what a text is, or what is wrong in it."""
        return _answer(answers.answer_check(asked))

    @app.get("/api/world")
    def world(asked: Annotated[asking.WorldQuery, Query()]) -> Response:
        """Return a start of a task."""
        return _answer(answers.answer_world(asked))

    @app.get("/api/runs")
    def runs() -> Response:
        """List the runs below the root."""
        return _answer(list_runs(root))

    @app.get("/api/charts", responses={304: {"description": "nothing is new"}})
    def charts(asked: Annotated[asking.ChartsQuery, Query()]) -> Response:
        """Return the curves of runs."""
        found = chart_runs(asked.run, root, asked.since)
        return Response(status_code=304) if found is None else _answer(found)


def _add_episodes(app: FastAPI, root: Root, desk: Desk) -> None:
    """Add what needs an episode to be recorded."""

    async def record(request: Request, asked: asking.EpisodeAsked) -> Response:
        key = answers.key_of(asked)
        packed = None if key is None else desk.recall(key)
        if packed is None:
            work = partial(answers.answer_episode, asked, root)
            packed = await desk.run(work, request.is_disconnected)
            if key is not None:
                desk.keep(key, packed)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type=_JSON, headers={"content-encoding": "gzip"})
        return Response(gzip.decompress(packed), media_type=_JSON)

    @app.get("/api/episode")
    async def episode(request: Request, asked: Annotated[asking.EpisodeQuery, Query()]) -> Response:
        """Record an episode of a machine that has a name."""
        return await record(request, asking.EpisodeAsked(**asked.model_dump()))

    @app.post("/api/episode")
    async def episode_of(request: Request, asked: asking.EpisodeAsked) -> Response:
        """Record an episode of a machine or a text, also from a start that was edited."""
        return await record(request, asked)

    @app.post("/api/export", response_class=Response)
    async def export(request: Request, asked: asking.ExportAsked) -> Response:
        """Draw an episode."""
        work = partial(answers.answer_export, asked, root)
        content = await desk.run(work, request.is_disconnected)
        return Response(content, media_type=MEDIA[asked.format])

    @app.post("/api/page", response_class=Response)
    async def page(request: Request, asked: asking.EpisodeAsked) -> Response:
        """Return an episode as one file of HTML."""
        content = await desk.run(partial(answers.answer_page, asked, root), request.is_disconnected)
        headers = {"content-disposition": 'attachment; filename="episode.html"'}
        return Response(content, media_type="text/html; charset=utf-8", headers=headers)


def _add_spaces(app: FastAPI, desk: Desk) -> None:
    """Add the maps of embeddings."""

    @app.get("/api/embeddings")
    def embeddings() -> Response:
        """List the embeddings that come with the package."""
        return _answer({"embeddings": list_spaces()})

    @app.get("/api/embedding")
    async def embedding(request: Request, asked: Annotated[asking.SpaceQuery, Query()]) -> Response:
        """Return the map of an embedding."""
        plane = await desk.run(lambda _: open_plane(asked.name), request.is_disconnected)
        return _answer(plane.data)

    @app.get("/api/embedding/at")
    async def point(request: Request, asked: Annotated[asking.PointQuery, Query()]) -> Response:
        """Return the program at a point of a map."""

        def work(_: Watch) -> dict[str, Any]:
            return decode_at(open_plane(asked.name), asked.x, asked.y)

        return _answer(await desk.run(work, request.is_disconnected))


def _add_page(app: FastAPI) -> None:
    """Add the page itself."""

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")


def _refuse(request: Request, error: Exception) -> Response:
    """Answer an error that a user can mend."""
    assert isinstance(error, PompError)
    status = 400
    if isinstance(error, BusyError):
        status = 429
    elif isinstance(error, AbandonedError):
        status = _GONE
    elif isinstance(error, MachineSyntaxError):
        status = 400
    elif isinstance(error, UnknownNameError | DataFileError):
        status = 404
    told = {"error": tell_error(error), "place": None}
    return Response(answers.to_bytes(told), status, media_type=_JSON)


def _refuse_gone(request: Request, error: Exception) -> Response:
    """Answer a request for files that went away, or cannot be read, while they were looked at."""
    told = {"error": "a file below the root cannot be read, or is there no more", "place": None}
    return Response(answers.to_bytes(told), 404, media_type=_JSON)


def _refuse_invalid(request: Request, error: Exception) -> Response:
    """Answer a request that says what it may not, with the first thing that is wrong."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    told = f"{abridge(where)}: {first['msg']}" if where else str(first["msg"])
    line = " ".join(visible(told).split())
    return Response(answers.to_bytes({"error": line, "place": None}), 422, media_type=_JSON)


def _refuse_http(request: Request, error: Exception) -> Response:
    """Answer a request for what is not there."""
    assert isinstance(error, HTTPException)
    told = {"error": str(error.detail), "place": None}
    return Response(answers.to_bytes(told), error.status_code, error.headers, media_type=_JSON)

"""Compute rounds at the same time: in processes where there are cores, else one after another.

Python between two compiled calls takes most of a round's time, so threads would wait for one
another's lock. The processes are kept for later searches and end with the process that began them.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, lru_cache
from multiprocessing.connection import Connection, wait as wait_for
from typing import Any

from pomp.core.compiling import thread_count
from pomp.core.errors import ConfigError, PompError
from pomp.core.processes import main_hidden
from pomp.core.streams import Purpose
from pomp.evolution.config import EvolveConfig
from pomp.evolution.ground import Ground, some_ground
from pomp.evolution.play import play_machines
from pomp.evolution.rounds import Round, RoundResult, run_round
from pomp.tasks.catalog import find_task, source_of
from pomp.tasks.task import Setting

_SLOTS = 256  # shared counters, one for each round being computed; more than ever are
_POLL = 0.05  # seconds between two questions whether to stop
_STOPPING = (signal.SIGINT, signal.SIGTERM)  # what stops a run

_Named = tuple[str, str, tuple[tuple[str, str], ...], tuple[int, int], int]


class Teams:
    """Compute the rounds of one search, each by a team: a process with a share of the threads.

    Args:
        setting: the task.
        seed: of the search.
        config: of the search.
        device: where machines are played, cpu or cuda.
        workers: processes. With 1, or for a task that no other process could import, a round is
            computed in this process when it is waited for.
    """

    def __init__(
        self, setting: Setting, seed: int, config: EvolveConfig, device: str, workers: int
    ) -> None:
        self._setting, self._seed, self._config = setting, seed, config
        self._device, self._workers = device, workers if _can_be_found(setting) else 1
        self._begun: dict[int, Future[RoundResult | None]] = {}
        self._tried = 0  # machines played by the round that is computed in this process
        self._is_compiled = False
        self._ground = lru_cache(1)(self._draw)

    @property
    def tried(self) -> int:
        """Machines played by rounds that are being computed or not waited for yet."""
        return self._tried + sum(_pool(self._workers).counts[one % _SLOTS] for one in self._begun)

    def begin(self, one: Round) -> None:
        """Let a round begin as soon as a process is free; does nothing if it has begun.

        Raises:
            PompError: a process ended.
        """
        if self._workers == 1 or one.number in self._begun:
            return
        if not self._is_compiled:  # here, so that the processes need not do it side by side
            ground = self._ground(one.starts)
            play_machines(self._setting, one.machines.take([0]), ground, self._config)
            self._is_compiled = True
        pool = _pool(self._workers)
        pool.counts[one.number % _SLOTS] = 0
        threads = max(1, thread_count() // self._workers)
        told = _name_of(self._setting), self._seed, self._config, one, threads
        # Signals are held until the process that may begin here has begun.
        with self._noticing_deaths(), _signals_held(), main_hidden():
            self._begun[one.number] = pool.executor.submit(_work, os.getcwd(), *told)

    def wait(self, one: Round, stop: Callable[[], bool]) -> RoundResult | None:
        """Wait for what a round finds.

        Args:
            one: the round.
            stop: asked again and again whether to stop waiting.

        Returns:
            The result, or None if `stop` came first.

        Raises:
            PompError: the round's process ended.
        """
        if self._workers == 1:
            return self._run_here(one, stop)
        future = self._begun[one.number]
        while not future.done():
            if stop():
                return None
            wait([future], _POLL)
        return self.result(one)

    @contextmanager
    def _noticing_deaths(self) -> Iterator[None]:
        """End all processes when one was killed, which breaks their pool, and say so."""
        try:
            yield
        except BrokenProcessPool as error:
            self._begun.clear()
            _pool(self._workers).end()
            _pool.cache_clear()
            what = "a process of the search was killed (perhaps there is too little memory)"
            raise PompError(f"{what}; go on with --resume") from error

    def result(self, one: Round) -> RoundResult | None:
        """Return what a round has found and forget it, or None if it has not come to its end.

        Raises:
            PompError: its process ended.
        """
        future = self._begun.get(one.number)
        if future is None or not future.done():
            return None
        del self._begun[one.number]
        with self._noticing_deaths():
            return future.result()

    def close(self) -> None:
        """Stop all rounds that are being computed, and forget them."""
        if not self._begun:
            return
        pool = _pool(self._workers)
        for future in self._begun.values():
            future.cancel()
        pool.stop.set()
        wait(self._begun.values())
        pool.stop.clear()
        self._begun.clear()

    def _run_here(self, one: Round, stop: Callable[[], bool]) -> RoundResult | None:
        """Compute a round in this process."""

        def is_stopped(tried: int) -> bool:
            self._tried = tried
            return stop()

        ground = self._ground(one.starts)
        try:
            return run_round(self._setting, ground, self._seed, self._config, one, is_stopped)
        finally:
            self._tried = 0

    def _draw(self, starts: int) -> Ground:
        """Return the worlds of rounds with so many starts."""
        asked = self._setting, self._config, starts, self._seed
        return some_ground(*asked, Purpose.SEARCH, self._device)


class _Pool:
    """Processes, an event that stops their rounds, and shared counts of machines played."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.stop, self.counts = context.Event(), context.RawArray("q", _SLOTS)
        ended, self._end = context.Pipe(duplex=False)
        self.executor = ProcessPoolExecutor(
            workers, context, initializer=_enter, initargs=(self.stop, self.counts, ended)
        )

    def end(self) -> None:
        """End the processes that are left: they ignore the signal that a broken pool sends them."""
        self._end.close()


@cache
def _pool(workers: int) -> _Pool:
    """Return the processes, which all searches with so many workers share."""
    return _Pool(workers)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Deliver signals that stop a run only afterwards; processes begun meanwhile get none."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# What follows runs in the processes.

_shared: dict[str, Any] = {}


def _enter(stop: Any, counts: Any, ended: Connection) -> None:
    """Prepare a process: keep what it shares with its parent, and end when that ends."""
    for number in _STOPPING:  # these are for the one that began this one
        signal.signal(number, signal.SIG_IGN)
    _shared.update(stop=stop, counts=counts)
    threading.Thread(target=_end_with_parent, args=(ended,), daemon=True).start()


def _end_with_parent(ended: Connection) -> None:
    """Wait until the parent ends, even if it is killed, or wants this process to; then exit."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel, ended])
    os._exit(1)


def _work(
    folder: str, name: _Named, seed: int, config: EvolveConfig, one: Round, threads: int
) -> RoundResult | None:
    """Compute a round of the search with this setting, seed and config.

    Modules of one's own are looked for in the folder in which the search was begun, which may be
    another one than that in which this process was.
    """

    def is_stopped(tried: int) -> bool:
        _shared["counts"][one.number % _SLOTS] = tried
        return bool(_shared["stop"].is_set())

    os.chdir(folder)
    setting = _setting_of(name)
    ground = _ground_of(name, config, one.starts, seed)
    return run_round(setting, ground, seed, config, one, is_stopped, threads)


def _name_of(setting: Setting) -> _Named:
    """Return names and numbers by which a process finds a setting: tasks cannot be pickled."""
    options = tuple(setting.option_texts.items())
    size = setting.height, setting.width
    return source_of(setting.task), setting.variant, options, size, setting.scale


def _can_be_found(setting: Setting) -> bool:
    """Whether another process can import the task."""
    try:
        return bool(source_of(setting.task))
    except ConfigError:
        return False


@lru_cache(1)
def _setting_of(name: _Named) -> Setting:
    """Find a setting by what `_name_of` returned."""
    task, variant, options, size, scale = name
    return find_task(task).configure(variant, dict(options), size, scale)


@lru_cache(1)
def _ground_of(name: _Named, config: EvolveConfig, starts: int, seed: int) -> Ground:
    """Return the worlds of rounds with so many starts."""
    return some_ground(_setting_of(name), config, starts, seed, Purpose.SEARCH, "cpu")

"""Where pieces are computed: by Ray, on this computer or on the nodes of a cluster.

Each piece is a task of Ray. The driver, which is the process that holds the queue, keeps the
results; a node that dies takes with it only what it was computing. Nothing here imports Ray before
it is used, since it is an extra.
"""

import logging
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pomp.core.compiling import MOST_THREADS, thread_count
from pomp.core.errors import ClusterError, ConfigError
from pomp.core.extras import RAY, require
from pomp.experiments.backends import RETRIES, IsOver, PieceOutcome, take_outcome, tell
from pomp.experiments.pieces import WorkPiece
from pomp.experiments.queue import CellQueue
from pomp.experiments.ray_worker import make_task, revisions_of
from pomp.version import __version__

LOCAL, AUTO = "local", "auto"
_ADDRESS = re.compile(r"(?P<host>[^\s/:]+|\[[^\s/\]]+\]):(?P<port>\d{1,5})")
_LOOK_SECONDS = 0.25
_COUNT_SECONDS = 5.0  # between two looks at how many nodes there are
_REACH_SECONDS, _ANSWER_SECONDS = 5.0, 20.0  # for a computer, then for the cluster on it
_SAVE_SECONDS = 60.0  # after which pieces that were told to stop are ended
_AHEAD = 2  # pieces handed to Ray for each that it can compute at a time
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # on Linux, too: no port for others
_STORE_BYTES = 128 * 2**20  # Ray's memory for objects on this computer; results are small

_PROBE = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
except Exception as error:
    sys.exit(" ".join(str(error).split()))
"""
_LOGGER = logging.getLogger("pomp")


@dataclass
class RayCluster:
    """Computes pieces as tasks of Ray, each on one core.

    The numbers are those of `ProcessPool`: a worker has one thread for torch, whose sums depend on
    how many it has, and one for compiled code, which computes the same with any number. Workers are
    not bound to cores, since only the system knows which of them are free on a node.

    Attributes:
        address: local: this computer alone. A cluster that this computer is a node of: `host:port`
            of its head, or `auto`. A process that is connected to Ray already stays so, and
            computes there.
        shared: whether the folder of results is the same one, at the same place, on all nodes, as
            it is for local. Then what was begun goes on after a stop or on another node. Else a
            piece has a folder on its node as long as it is computed, and only results come back.
        cpus: cores that a piece takes; with several, torch may compute other last digits.
        gpus: GPUs that a piece takes if it is computed on CUDA; below 1, pieces share one.

    Raises:
        ConfigError: no such address, or numbers that do not fit.
        MissingExtraError: Ray is not installed.
    """

    address: str = LOCAL
    shared: bool = False
    cpus: int = 1
    gpus: float = 1.0
    _tries: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.address not in (LOCAL, AUTO) and not _ADDRESS.fullmatch(self.address):
            raise ConfigError(
                f"an address of Ray is {LOCAL}, {AUTO} or host:port, got '{self.address}'"
            )
        if self.cpus < 1 or self.gpus <= 0:
            raise ConfigError(
                f"a piece takes 1 core or more and a share of a GPU, got {self.cpus} and "
                f"{self.gpus:g}"
            )
        require(RAY, "a cluster (--ray)")

    @property
    def is_elsewhere(self) -> bool:
        """Whether pieces are computed on other computers than the driver's."""
        return self.address != LOCAL

    def run(self, queue: CellQueue, is_over: IsOver) -> None:
        """Compute what is left; see `Backend`.

        Raises:
            ClusterError: the cluster does not answer, or a node of it has another pomp.
        """
        with _connected(self.address) as is_ours:
            is_here = is_ours and not self.is_elsewhere
            tasks = _Tasks(self, queue, queue.store.path if self.shared or is_here else None)
            try:
                self._fill(queue, tasks, is_over)
            finally:
                tasks.end()

    def _fill(self, queue: CellQueue, tasks: "_Tasks", is_over: IsOver) -> None:
        """Keep the nodes busy until nothing is left, or until those that are busy have stopped."""
        began, is_stopped, refusal = time.monotonic(), False, ""
        while True:
            if not is_stopped:
                tasks.submit()
            if not tasks.running:
                break
            for piece, found in tasks.ended():
                if isinstance(found, PieceOutcome):
                    take_outcome(queue, piece, found)
                elif isinstance(found, str):
                    queue.end(piece)
                    refusal = found
                else:
                    self._give_up(queue, piece, found, is_stopped=is_stopped)
            is_over_now = is_over(tell(queue, began))
            if not is_stopped and (is_over_now or refusal):
                is_stopped = True
                tasks.stop()
        if refusal:
            raise ClusterError(refusal)

    def _give_up(
        self, queue: CellQueue, piece: WorkPiece, error: Exception, *, is_stopped: bool
    ) -> None:
        """Put a piece back whose worker or node died; after some tries it has failed."""
        if is_stopped:
            queue.end(piece)
            return
        tries = self._tries[piece.name] = self._tries.get(piece.name, 0) + 1
        died = f"its worker or its node died ({type(error).__name__})"
        if tries > RETRIES:
            queue.end(piece, f"{died} {tries} times (perhaps too little memory)")
            return
        _LOGGER.warning("warning: %s: %s; it is computed again", piece.title, died)
        queue.end(piece)


class _Tasks:
    """The pieces that Ray has, each as a task.

    Ray's own retries are off: it repeats for ever what was killed for its memory.

    Args:
        cluster: says what a piece takes.
        queue: what is left.
        shared: the folder of results, if all nodes have it.
    """

    def __init__(self, cluster: RayCluster, queue: CellQueue, shared: Path | None) -> None:
        import ray

        self._queue, self._shared = queue, shared and shared.resolve()
        needs = {"CPU": float(cluster.cpus)}
        if queue.device == "cuda":
            needs["GPU"] = cluster.gpus
        self._needs, self._slots, self._counted = needs, 0, -_COUNT_SECONDS
        threads = str(cluster.cpus)
        variables = {"OMP_NUM_THREADS": threads, MOST_THREADS: threads}
        self._tasks = {
            device: ray.remote(make_task()).options(
                num_cpus=cluster.cpus,
                num_gpus=gpus,
                max_retries=0,
                runtime_env={"env_vars": variables},
            )
            for device, gpus in (("cpu", 0), ("cuda", cluster.gpus))
        }
        self.running: dict[Any, WorkPiece] = {}
        self._end_at = float("inf")

    def _count(self) -> int:
        """Return how many pieces the nodes can compute at a time."""
        import ray

        if time.monotonic() - self._counted >= _COUNT_SECONDS:
            has: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray's
            before = self._slots
            self._slots = int(min(has.get(name, 0) // count for name, count in self._needs.items()))
            if not self._slots and (before or self._counted < 0):
                wanted = " and ".join(f"{count:g} {name}" for name, count in self._needs.items())
                _LOGGER.warning("warning: no node has %s for a piece; waiting for one", wanted)
            self._counted = time.monotonic()
        return self._slots

    def submit(self) -> None:
        """Hand pieces to Ray, as many as keep it busy."""
        free = _AHEAD * max(1, self._count()) - len(self.running)
        if free <= 0:
            return
        for piece in self._queue.ready()[:free]:
            self._queue.begin(piece)
            folder = self._queue.folder(piece).resolve() if self._shared else None
            inputs, done = self._queue.inputs(piece), self._queue.done(piece)
            given = pickle.dumps((piece, inputs, folder, self._shared, done))
            task = self._tasks[piece.device].remote(__version__, revisions_of(piece), given)
            self.running[task] = piece

    def ended(self) -> Iterator[tuple[WorkPiece, PieceOutcome | str | Exception]]:
        """Wait a moment; yield what became of tasks: results, a refusal, or how their node died."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        if time.monotonic() > self._end_at:
            self.end()
            self._end_at = float("inf")
        found, _ = ray.wait(list(self.running), num_returns=1, timeout=_LOOK_SECONDS)
        if found:  # and all others that have ended
            found, _ = ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        for task in found:
            piece = self.running.pop(task)
            try:
                yield piece, ray.get(task)
            except RayError as error:
                told = error.cause if isinstance(error, RayTaskError) else error
                if not isinstance(told, RayError):
                    raise  # a bug
                yield piece, told

    def stop(self) -> None:
        """Tell the pieces that are being computed to stop, and take the others back."""
        self._end_at = time.monotonic() + _SAVE_SECONDS
        self._cancel(force=False)

    def end(self) -> None:
        """End the pieces that are being computed."""
        self._cancel(force=True)

    def _cancel(self, *, force: bool) -> None:
        import ray

        for task in self.running:
            ray.cancel(task, force=force)


# Connecting


@contextmanager
def _connected(address: str) -> Iterator[bool]:
    """Be connected to Ray; yields whether the connection was made here, and so ends here.

    Raises:
        ClusterError: nothing answers at the address.
    """
    with _environment(_LOOPBACK if address == LOCAL else {}):
        import ray

        if is_ours := not ray.is_initialized():
            _connect(address)
    try:
        yield is_ours
    finally:
        if is_ours:
            ray.shutdown()


def _connect(address: str) -> None:
    """Connect to a cluster, or start Ray on this computer."""
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "CRITICAL"}
    if address == LOCAL:
        options |= {"num_cpus": thread_count(), "object_store_memory": _STORE_BYTES}
        options |= {"include_dashboard": False}
    else:
        _check_answer(address)
    try:
        with _sigterm_kept(), _environment({"RAY_USAGE_STATS_ENABLED": "0"}):
            ray.init(address=address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(_no_answer(address, str(error))) from error


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment that are not set."""
    own = {name: text for name, text in values.items() if name not in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            del os.environ[name]


def _check_answer(address: str) -> None:
    """Refuse an address where no cluster answers, soon.

    Ray would try for a minute and then end the process, so another process tries first.
    """
    if parts := _ADDRESS.fullmatch(address):
        host = parts["host"].strip("[]")
        try:
            socket.create_connection((host, int(parts["port"])), _REACH_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise ClusterError(_no_answer(address, str(error))) from error
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _PROBE, address],
            capture_output=True,
            timeout=_ANSWER_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        if b"AuthToken" in (error.stderr or b""):
            what = f"the Ray cluster at '{address}' wants a token"
            raise ClusterError(f"{what}: export RAY_AUTH_MODE=token here, too") from error
        why = f"nothing came in {_ANSWER_SECONDS:g} s"
        raise ClusterError(_no_answer(address, why)) from error
    if tried.returncode:
        told = tried.stderr.decode(errors="replace").strip().splitlines()
        raise ClusterError(_no_answer(address, told[-1] if told else "it ended"))


def _no_answer(address: str, why: str) -> str:
    """Return what to say where no cluster answers."""
    reason = " ".join(why.split()).rstrip(".")
    if address == LOCAL:
        return f"Ray does not start on this computer: {reason}"
    hint = "`ray start` on this computer makes it a node"
    return f"no Ray cluster answers at '{address}': {reason}; {hint}"


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

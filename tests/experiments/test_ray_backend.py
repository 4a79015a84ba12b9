"""Ray: a real cluster of several nodes on this computer, some of which are killed."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import call
from pomp.core import extras
from pomp.core.errors import ClusterError, ConfigError, MissingExtraError
from pomp.experiments import Cell, RayCluster, ResultStore, ray_backend, read_results, reproduce
from pomp.experiments.pieces import WorkPiece
from pomp.experiments.ray_worker import compute_on_node, make_task, revisions_of
from pomp.version import __version__
from processes import PATIENCE, run_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")

TABLE = "reproduce", "table1", "--methods", "hill-climbing", "--tasks", "Maze", "--budget", "0.0001"
BARE = {"include_dashboard": False, "object_store_memory": 80 * 2**20}
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # Ray's name for: ports for this computer alone


def some_cells(count):
    """The cheapest ones."""
    seeds = range(count)
    return [Cell(method="hill-climbing", task="Maze", seed=seed, budget=1e-4) for seed in seeds]


def values_of(results):
    """What was computed, without what it was computed on and how long that took."""
    told = {one.cell.name: json.loads(one.to_text()) for one in results}
    for values in told.values():
        del values["made"], values["cost"]["seconds"], values["checksum"]
    return told


@pytest.fixture(scope="module")
def cluster():
    """A cluster whose head computes nothing, so a test's pieces are where its own nodes are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOOPBACK, "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_health_check_period_ms", "500")  # so that a dead node is missed soon
        from ray._private import ray_constants
        from ray.cluster_utils import Cluster

        patch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", False)  # if it was imported before
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **BARE})
        yield started
        started.shutdown()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Results of cells that take a moment, computed in this process."""
    cells = [
        Cell(method="hill-climbing", task="UpNDown", seed=one, budget=0.05) for one in range(6)
    ]
    return reproduce(cells, out=tmp_path_factory.mktemp("here")).results


@pytest.fixture
def add_node(cluster):
    """Adds nodes of one core to the cluster for the time of a test."""
    nodes = []

    def add():
        nodes.append(cluster.add_node(num_cpus=1, **BARE))
        return nodes[-1]

    yield add
    for node in nodes:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)


def computing(node):
    """The processes of a node's workers that compute a piece right now."""
    raylet = node.all_processes["raylet"][0].process.pid
    return [one for one in children_of(raylet) if is_computing(one)]


def children_of(parent):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == parent:
            found.append(int(path.parent.name))
    return found


def is_computing(process):
    try:
        return b"compute_piece" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def hold(node):
    """Halt a node's workers that compute a piece; returns them."""
    held = computing(node)
    for process in held:
        os.kill(process, signal.SIGSTOP)
    ended = [process for process in held if not is_computing(process)]  # just before
    for process in ended:
        os.kill(process, signal.SIGCONT)
    return [process for process in held if process not in ended]


class KillsANode:
    """After the first cell, halts two nodes in the middle of pieces; one goes on, one is killed."""

    def __init__(self, stays, dies):
        self.stays, self.dies, self.is_dead = stays, dies, False

    def __call__(self, event):
        if self.is_dead or not event.progress.finished:
            return
        staying, dying = self._wait_for_both()
        raylet = self.dies.all_processes["raylet"][0].process.pid
        for process in (raylet, *dying):  # as if the computer had lost power
            os.kill(process, signal.SIGKILL)
        for process in staying:
            os.kill(process, signal.SIGCONT)
        self.is_dead = True

    def _wait_for_both(self):
        """Halt each node as soon as it computes: while one is halted, the other has the rest."""
        staying, dying = [], []
        until = time.monotonic() + PATIENCE
        while not (staying and dying):
            assert time.monotonic() < until, "a node has nothing to compute"
            staying = staying or hold(self.stays)
            dying = dying or hold(self.dies)
            time.sleep(0.005)
        return staying, dying


@pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_node_that_is_killed_loses_no_cell_and_the_others_compute_its_own(
    cluster, add_node, tmp_path, expected, shared
):
    cells = [one.cell for one in expected]
    events = KillsANode(add_node(), add_node())
    backend = RayCluster(cluster.address, shared)
    found = reproduce(cells, out=tmp_path / "ray", backend=backend, on_event=events)
    assert events.is_dead
    assert list(backend._tries.values()) == [1]
    assert found.is_finished
    assert not found.failed
    assert found.computed == len(cells)
    assert len(list((tmp_path / "ray" / "cells").rglob("*.json"))) == len(cells)
    assert values_of(found.results) == values_of(expected)


@pytest.mark.slow
def test_a_piece_whose_worker_dies_again_and_again_has_failed_and_the_others_go_on(
    cluster, add_node, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_backend, "RETRIES", 0)
    node, killed = add_node(), []

    def kill_one(event):
        if not killed and (found := hold(node)):
            killed.extend(found)
            os.kill(found[0], signal.SIGKILL)

    backend = RayCluster(cluster.address)
    found = reproduce(some_cells(3), out=tmp_path / "out", backend=backend, on_event=kill_one)
    [why] = found.failed.values()
    assert "its worker or its node died (WorkerCrashedError) 1 times" in why
    assert len(found.results) == 2


def test_a_stop_keeps_finished_cells_and_the_next_call_computes_the_rest(
    cluster, add_node, tmp_path
):
    add_node()
    cells, out = some_cells(6), tmp_path / "out"

    def is_enough(event):
        return event.progress.finished > 0

    first = reproduce(cells, out=out, backend=RayCluster(cluster.address), on_event=is_enough)
    assert 0 < len(first.results) < len(cells)
    assert not first.failed
    second = reproduce(cells, out=out)
    assert second.is_finished
    assert second.computed == len(cells) - len(first.results)


@pytest.mark.slow
def test_a_stop_while_a_worker_imports_what_it_needs_is_no_error(cluster, add_node, tmp_path):
    node, backend = add_node(), RayCluster(cluster.address)
    found = reproduce(
        some_cells(1), out=tmp_path, backend=backend, on_event=lambda _: bool(computing(node))
    )
    assert not found.failed


def test_a_stop_saves_what_is_being_computed_in_a_shared_folder(cluster, add_node, tmp_path):
    add_node()
    cells = [Cell(method="hill-climbing", task="UpNDown", seed=0)]  # too long for a test
    found = reproduce(
        cells,
        out=tmp_path,
        backend=RayCluster(cluster.address, shared=True),
        on_event=lambda _: any(tmp_path.glob("runs/*/run/config.json")),
    )
    assert not found.results
    assert not found.failed
    [piece] = tmp_path.glob("runs/*/piece.json")
    assert json.loads(piece.read_text())["seconds"] > 0
    [state] = piece.parent.rglob("*.safetensors")
    assert state.stat().st_size > 0


def test_a_worker_with_another_version_is_refused_in_one_line(
    cluster, add_node, tmp_path, monkeypatch
):
    add_node()
    monkeypatch.setattr(ray_backend, "__version__", "99.0")
    with pytest.raises(ClusterError, match=rf"has pomp {__version__}, the driver 99\.0; install"):
        reproduce(some_cells(2), out=tmp_path / "out", backend=RayCluster(cluster.address))


@pytest.mark.parametrize(("files", "named"), [({}, "none"), ({"version.py": '"0.0.1"'}, r"0.0.1")])
def test_a_worker_whose_pomp_cannot_even_read_the_piece_says_what_it_has(tmp_path, files, named):
    from ray import cloudpickle

    (tmp_path / "pomp").mkdir()
    (tmp_path / "pomp" / "__init__.py").touch()
    for name, text in files.items():
        (tmp_path / "pomp" / name).write_text(f"__version__ = {text}")
    task = cloudpickle.dumps(make_task())
    code = "import sys, pickle; print(pickle.load(sys.stdin.buffer)('0.9', {}, b'no pickle'))"
    told = subprocess.run(
        [sys.executable, "-c", code],
        input=task,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=PATIENCE,
    )
    assert f"has pomp {named}, the driver 0.9" in told.stdout.decode()


def test_a_worker_with_another_revision_is_refused():
    piece = WorkPiece("search", tuple(some_cells(1)), "cpu")
    given = pickle.dumps((piece, {}, None, None, []))
    driver = {**revisions_of(piece), "hill-climbing": 77}
    assert "revision 1 of hill-climbing, the driver 77" in compute_on_node(driver, given)


def test_a_folder_that_a_node_does_not_have_is_not_shared(tmp_path):
    piece = WorkPiece("search", tuple(some_cells(1)), "cpu")
    given = pickle.dumps((piece, {}, tmp_path / "out" / "runs", tmp_path / "out", []))
    told = compute_on_node(revisions_of(piece), given)
    assert "out, is not there on" in told
    assert not (tmp_path / "out").exists()


def test_a_node_that_cannot_write_says_which_it_is(tmp_path):
    piece = WorkPiece("search", tuple(some_cells(1)), "cpu")
    ResultStore(tmp_path).make()
    (tmp_path / "runs").touch()  # no folder
    given = pickle.dumps((piece, {}, tmp_path / "runs" / piece.name, tmp_path, []))
    outcome = compute_on_node(revisions_of(piece), given)
    assert not outcome.is_finished
    assert outcome.error.startswith(f"on {socket.gethostname()}: ")


def test_an_address_where_nothing_listens_is_refused(tmp_path):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    with pytest.raises(ClusterError, match=f"no Ray cluster answers at '{address}': .*refused"):
        reproduce(some_cells(1), out=tmp_path / "out", backend=RayCluster(address))


def test_an_address_that_does_not_answer_is_refused_within_half_a_minute(tmp_path, monkeypatch):
    assert ray_backend._REACH_SECONDS + ray_backend._ANSWER_SECONDS < 30
    monkeypatch.setattr(ray_backend, "_ANSWER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"'{address}': nothing came in 1 s"):
            reproduce(some_cells(1), out=tmp_path / "out", backend=RayCluster(address))


@pytest.mark.parametrize("address", ["", "nowhere", "http://host:1", "host:port"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigError, match="an address of Ray is local, auto or host:port, got"):
        RayCluster(address)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pomp-rl\[ray\]'"):
        RayCluster()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ray", "local", "--processes", "2"], "--ray or in --processes, not both"),
        (["--shared"], "nodes of --ray, which is missing"),
        (["--ray", "nowhere"], "an address of Ray is"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, tmp_path, options, told):
    status, _, errors = call(capsys, *TABLE, "--out", tmp_path / "out", *options)
    assert status == 2
    assert told in errors
    assert errors.count("\n") == 1


@pytest.mark.slow
def test_ctrl_c_ends_a_run_by_ray_on_this_computer_with_what_is_finished(tmp_path):
    out = tmp_path / "out"
    given = [*TABLE, "--seeds", "0-7", "--out", str(out), "--ray", "local", "--json"]
    status, printed, _ = run_until(("seed1.json", 1), signal.SIGINT, *given, to_group=True)
    told = json.loads(printed)
    assert status == 130
    assert not told["failed"]
    assert 0 < told["computed"] == len(read_results(out))

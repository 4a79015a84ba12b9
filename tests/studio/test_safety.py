"""What the studio refuses: other sites, other folders, too much, code; and what it gives up."""

import asyncio
import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from unpacking import HOME

from pomp.core.errors import ConfigError
from pomp.machine.zoo import load_machine
from pomp.studio.app import make_app
from pomp.studio.desk import AbandonedError, BusyError, Desk
from pomp.studio.guard import Guard
from pomp.studio.limits import LIMITS, StudioLimits
from pomp.studio.recording import record_episode
from pomp.studio.server import _listen

PROGRAM = "DEF run m( move m)"
TEXT = "machine {}\nstart walk\nmode walk: DEF run m( move m)\n  else -> stop\n"


def nested(depth):
    """A program of loops within one another."""
    return f"DEF run m( {'REPEAT R=3 r( ' * depth}move {'r) ' * depth}m)"


def test_it_listens_on_this_computer_alone():
    with _listen("127.0.0.1", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_port_in_use_is_told():
    told = r"cannot listen on 127\.0\.0\.1:.*name another --port"
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(ConfigError, match=told),
    ):
        _listen("127.0.0.1", other.getsockname()[1])


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8484", "", "[", "a@b:1"])
def test_a_foreign_host_is_refused(client, host):
    assert client.get("/api/tasks", headers={"host": host}).status_code == 403
    assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8484", "localhost:8484", "[::1]:8484"])
def test_this_computer_is_known_by_its_names(client, host):
    assert client.get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_foreign_origin_is_refused(client, origin):
    asked = {"text": PROGRAM, "task": "Maze"}
    answer = client.post("/api/episode", json=asked, headers={"origin": origin})
    assert (answer.status_code, answer.json()["place"]) == (403, None)
    assert client.post("/api/check", json=asked, headers={"origin": HOME}).status_code == 200


def test_a_picture_on_another_page_cannot_ask(client):
    headers = {"sec-fetch-site": "cross-site"}
    assert client.get("/api/tasks", headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 200  # a link to the page


def test_everywhere_takes_addresses_but_no_names():
    everywhere = Guard(None, "0.0.0.0")
    assert everywhere._is_known("192.168.0.7:8484")
    assert not everywhere._is_known("evil.example:8484")


@pytest.mark.parametrize("name", ["../other", "/etc", "a/../../other", "link", "a\0b", "x" * 290])
def test_what_is_not_below_the_root_is_not_there(client, tmp_path, name):
    other = tmp_path.parent / f"{tmp_path.name}-other"
    load_machine("zoo:Maze/text").save(other)
    (tmp_path / "link").symlink_to(other)
    for answer in (
        client.get("/api/machine", params={"machine": f"run:{name}"}),
        client.get("/api/episode", params={"machine": f"run:{name}"}),
        client.get("/api/charts", params={"run": name}),
    ):
        assert answer.status_code == 404
        assert "below the root" in answer.json()["error"]


def test_links_to_runs_elsewhere_are_not_listed(client, tmp_path):
    other = tmp_path.parent / f"{tmp_path.name}-run"
    other.mkdir()
    config = {"kind": "evolve", "tasks": {"Maze": {}}, "seeds": [0]}
    (other / "config.json").write_text(json.dumps(config))
    (tmp_path / "run").symlink_to(other)
    assert client.get("/api/runs").json()["groups"] == []


def test_files_of_the_package_are_not_served(client):
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert client.get(path).status_code == 404


def test_no_module_is_imported(client, tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trap.machine").write_text(TEXT.format("trap:TASK"))
    asked = {"text": TEXT.format("trap:TASK")}
    assert "may not run" in client.post("/api/check", json=asked).json()["error"]
    assert client.post("/api/episode", json=asked).status_code == 400
    sensor = TEXT.format("Maze").replace("start", "sensor trap:SENSOR\nstart")
    assert client.post("/api/episode", json={"text": sensor}).status_code == 400
    for name in ("run:trap.machine", "trap:TASK", "zoo:trap:TASK"):
        assert client.get("/api/machine", params={"machine": name}).status_code in (400, 404)
    for task in ("trap:TASK", "os.path"):
        answer = client.post("/api/episode", json={"text": PROGRAM, "task": task})
        assert answer.status_code == 422
    assert "trap" not in sys.modules


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"text": "DEF run m( " + "move " * 20000 + "m)"}, "at most 65536 characters"),
        ({"text": nested(65)}, "up to a depth of 64, got 65"),
        ({"text": nested(2000)}, "at most 4096 tokens"),
        ({"text": TEXT.format("Maze") + "mode walk: DEF run m( move m)"}, "walk"),
        ({"text": PROGRAM, "size": "65x65"}, "at most 4096 cells"),
        ({"text": PROGRAM, "size": "999x3"}, "at most 4096 cells"),
        ({"text": PROGRAM, "seed": 1 << 70}, "less than or equal to"),
        ({"text": PROGRAM, "scale": 3}, "has scale"),
        ({"text": PROGRAM, "machine": "zoo:Maze"}, "give one"),
        ({"seed": 1}, "give one"),
    ],
)
def test_what_is_too_much_is_refused(client, asked, reason):
    answer = client.post("/api/episode", json={"task": "Harvester", **asked})
    assert answer.status_code in (400, 422)
    assert reason in answer.json()["error"]


def test_a_long_request_is_refused_however_it_comes(client):
    long = b" " * (LIMITS.body + 1)
    assert client.post("/api/check", content=long).status_code == 413
    answer = client.post("/api/check", content=(long[:100_000] for _ in range(12)))
    assert answer.status_code in (400, 413)


def test_animations_have_a_bound(client):
    asked = {"machine": "zoo:Harvester/text", "format": "gif", "last": 401}
    answer = client.post("/api/export", json=asked)
    assert (answer.status_code, "at most 400" in answer.json()["error"]) == (400, True)


def test_names_from_files_are_text(client, tmp_path):
    name = "<img src=x onerror=alert(1)>\x1b[31m"
    folder = tmp_path / name
    folder.mkdir()
    config = {"kind": "evolve", "tasks": {"Maze": {}}, "seeds": [0]}
    (folder / "config.json").write_text(json.dumps(config))
    answer = client.get("/api/runs")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "unsafe-inline" not in answer.headers["content-security-policy"].split("style-src")[0]
    path = answer.json()["groups"][0]["runs"][0]["path"]
    assert path == name.replace("\x1b", "\\x1b")


def run_alone(coroutine):
    """Run it in a thread of its own: where Playwright is open, this one has a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def run_desk(desk, *works, is_gone=None):
    async def stay():
        return False

    async def all_of_them():
        return await asyncio.gather(
            *(desk.run(work, is_gone or stay) for work in works), return_exceptions=True
        )

    return run_alone(all_of_them())


def test_a_recording_nobody_waits_for_is_given_up():
    desk, steps = Desk(), []
    since = time.monotonic()

    async def is_gone():
        return time.monotonic() - since > 0.3

    def work(watch):
        while True:  # a recording without end
            record_episode(load_machine("zoo:Harvester/text"), watch=watch)
            steps.append(time.monotonic())

    (ended,) = run_desk(desk, work, is_gone=is_gone)
    assert isinstance(ended, AbandonedError)
    count = len(steps)
    time.sleep(0.2)
    assert len(steps) == count


def test_a_client_that_hangs_up_ends_its_recording(monkeypatch):
    ended, sent = [], []

    def endless(asked, root, watch):
        try:
            while True:
                watch(0)
        except AbandonedError as error:
            ended.append(error)
            raise

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    monkeypatch.setattr("pomp.studio.answers.answer_episode", endless)
    scope = {
        "type": "http", "method": "GET", "path": "/api/episode", "http_version": "1.1",
        "query_string": b"machine=zoo:Maze", "headers": [(b"host", b"127.0.0.1")],
    }  # fmt: skip
    run_alone(make_app()(scope, receive, send))
    assert len(ended) == 1
    assert sent[0]["status"] == 499


def test_a_recording_that_takes_too_long_is_given_up():
    def work(watch):
        while True:
            watch(0)

    (ended,) = run_desk(Desk(StudioLimits(seconds=0.2)), work)
    assert isinstance(ended, ConfigError)


def test_few_recordings_are_made_at_once():
    most, now = [], set()
    lock = threading.Lock()

    def work(watch):
        with lock:
            now.add(threading.get_ident())
            most.append(len(now))
        time.sleep(0.05)
        with lock:
            now.discard(threading.get_ident())
        return "done"

    found = run_desk(Desk(StudioLimits(at_once=2, waiting=3)), *[work] * 7)
    assert found[:5] == ["done"] * 5
    assert all(isinstance(one, BusyError) for one in found[5:])
    assert max(most) <= 2


def test_kept_answers_stay_within_their_room():
    desk = Desk()
    for number in range(100):
        desk.keep(number, bytes(1 << 20))
    assert desk.recall(99) is not None
    assert desk.recall(0) is None


def test_a_studio_without_a_root_has_no_runs():
    from fastapi.testclient import TestClient

    client = TestClient(make_app(None), base_url=HOME)
    assert client.get("/api/runs").json() == {"root": None, "groups": []}
    assert client.get("/api/machine", params={"machine": "run:."}).status_code == 404

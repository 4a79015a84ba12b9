"""`pomp studio` and `pomp play --html`: what they write, and what they refuse."""

import base64
import gzip
import json
import re
import subprocess
import sys
import urllib.request
from html import unescape

import pytest

from commands import call
from pomp.machine.zoo import load_machine
from pomp.studio import record_episode
from pomp.studio.pages import STATIC, make_page

PLAYED = ("play", "zoo:Harvester/text", "--seed", "3")


def read_page(text):
    """The episode inside a page."""
    found = re.search(r'id="pomp-episode">([^<]*)</script>', text)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_one_file_has_the_episode_and_the_player(tmp_path, capsys):
    file = tmp_path / "episode.html"
    status, out, _ = call(capsys, *PLAYED, "--html", file)
    told = read_page(file.read_text("utf-8"))
    episode = record_episode(load_machine("zoo:Harvester/text"), seed=3)
    assert (status, told["return"], told["actions"]) == (0, episode.worth, episode.actions)
    assert f"return {episode.worth:.6f} after {episode.actions} actions" in out
    data = len(re.search(r'id="pomp-episode">([^<]*)<', file.read_text("utf-8"))[1])
    assert file.stat().st_size - data < 300_000
    assert (STATIC / "player.js").read_text("utf-8") in file.read_text("utf-8")


def test_a_page_may_fetch_nothing(tmp_path, capsys):
    file = tmp_path / "episode.html"
    call(capsys, *PLAYED, "--html", file)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', file.read_text("utf-8"))[1]
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy


def test_the_same_episode_is_the_same_file(tmp_path, capsys):
    for name in ("one", "two"):
        call(capsys, *PLAYED, "--html", tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_names_in_one_file_are_text():
    evil = "</title></script><img src=x onerror=alert(1)>"
    page = make_page(record_episode("zoo:Harvester/text"), evil)
    assert evil not in page
    assert page.count("</title>") == 1
    assert page.count("</script>") == 2
    assert "<img src=x" not in page
    assert read_page(page)["machine"]["name"] == evil


def test_a_notebook_shows_the_player_in_a_frame():
    shown = record_episode(load_machine("zoo:Harvester/text"))._repr_html_()
    page = unescape(re.fullmatch(r'<iframe srcdoc="([^"]*)" .*></iframe>', shown, re.DOTALL)[1])
    assert read_page(page)["task"] == "Harvester"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((*PLAYED, "--html", "no/such/folder.html"), "there is no folder 'no/such'"),
        ((*PLAYED, "--print", "--html", "x.html"), "without --manual and --print"),
        (("studio", "--run", "no/such"), "'no/such' is none"),
        (("studio", "--port", "70000"), "--port must be from 0 to 65535, got 70000"),
        (("studio", "--host", "192.0.2.1"), "cannot listen on 192.0.2.1:8484"),
    ],
)
def test_bad_input_is_one_line(given, reason, capsys):
    status, _, errors = call(capsys, *given)
    assert status == 2
    assert reason in errors
    assert len(errors.strip().splitlines()) == 1


def test_without_the_extra_it_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.setattr("pomp.core.extras.find_spec", lambda module: None)
    status, _, errors = call(capsys, "studio")
    assert (status, "pip install 'pomp-rl[studio]'" in errors) == (2, True)


def test_it_serves_until_it_is_interrupted():
    command = [sys.executable, "-m", "pomp", "studio", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://\S+", process.stdout.readline())[0]
            with urllib.request.urlopen(f"{address}api/about", timeout=30) as answer:
                assert json.load(answer)["root"] is None
        finally:
            process.send_signal(2)
        assert process.wait(timeout=30) == 0


_MANY = """
import resource
from fastapi.testclient import TestClient
from pomp.studio.app import make_app

client = TestClient(make_app(), base_url="http://127.0.0.1")
for seed in range(100):
    asked = {"machine": "zoo:Farmer/text", "scale": 16, "size": "11x11", "seed": seed}
    answer = client.get("/api/episode", params=asked)
    assert answer.status_code == 200
    assert seed or answer.json()["actions"] > 48_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@pytest.mark.slow
def test_a_hundred_long_episodes_leave_little_behind():
    command = [sys.executable, "-W", "ignore", "-c", _MANY]
    megabytes = float(subprocess.run(command, capture_output=True, check=True).stdout)
    assert megabytes < 500

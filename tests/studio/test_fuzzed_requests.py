"""Requests that are drawn from the schema, and malformed ones: a client's error, never ours."""

import pytest
from hypothesis import Phase, settings
from unpacking import HOME

schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")
pytest.importorskip("fastapi", reason="pip install 'pomp-rl[studio]'")

from pomp.studio.app import make_app  # noqa: E402

APP = make_app()
API = schemathesis.openapi.from_dict(APP.openapi())
API.app = APP
LIGHT = API.exclude(path_regex="embedding")  # a map is drawn for minutes where nothing is compiled
SECONDS = 120
CHECKS = [schemathesis.checks.not_a_server_error]


def ask(case):
    """Send a request; the answer is no error of the server, and an error is one line."""
    answer = case.call(base_url=HOME, timeout=SECONDS)
    case.validate_response(answer, checks=CHECKS)
    if answer.status_code >= 400:
        told = answer.json()
        assert set(told) == {"error", "place"}
        assert "\n" not in told["error"]


@LIGHT.parametrize()
@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])
def test_some_requests(case):
    ask(case)


@pytest.mark.slow
@API.parametrize()
@settings(max_examples=500)
def test_many_requests(case):
    ask(case)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/api/check", b""),
        ("/api/check", b"{"),
        ("/api/check", b"\xff\xfe"),
        ("/api/check", b"[" * 100_000),
        ("/api/check", b'{"text": "\\ud800 DEF"}'),
        ("/api/check", b'{"text": "machine \\ud800"}'),
        ("/api/check", b'{"text": "DEF run \\u0000 m)"}'),
        ("/api/check", b'{"text": 1}'),
        ("/api/check", b'{"text": "", "\\n": 1}'),
        ("/api/episode", b'{"machine": "zoo:Maze", "seed": NaN}'),
        ("/api/episode", b'{"machine": "zoo:Maze", "seed": 1e400}'),
        ("/api/episode", b'{"machine": "zoo:Maze", "seed": true}'),
        ("/api/episode", b'{"machine": "run:\\ud800"}'),
        ("/api/episode", b'{"text": "DEF run m( move m)", "task": "Maze", "world": {}}'),
        ("/api/export", b'{"machine": "zoo:Maze/text", "frame": 999999}'),
        ("/api/export", b'{"machine": "zoo:Maze/text", "format": "gif", "first": 9, "last": 1}'),
    ],
)
def test_malformed_bodies(client, path, content):
    answer = client.post(path, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 200 or 400 <= answer.status_code < 500
    if answer.status_code >= 400:
        assert "\n" not in answer.json()["error"]

"""A real browser on a real server; without a browser these tests are skipped, saying what to do."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from seen import MACHINE

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
    "--enable-precise-memory-info", "--js-flags=--expose-gc",
)  # fmt: skip

MOST_MILLISECONDS = 120_000  # that a first episode takes where everything has to be compiled


@pytest.fixture(scope="session")
def chromium():
    """The browser, or a line that says what to install."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: pip install 'pomp-rl[dev]'"
    )
    pytest.importorskip("uvicorn", reason="no server: pip install 'pomp-rl[studio]'")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no browser: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def studio(chromium, tmp_path_factory):
    """The address of `pomp studio`, in a process of its own on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-m", "pomp", "studio", "--no-browser", "--port", str(port)]
    with (root.parent / "server.txt").open("w") as log:
        process = subprocess.Popen(
            [*command, "--run", str(root)],
            stdout=log, stderr=log, env=os.environ | {"NUMBA_NUM_THREADS": "1"},
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{address}/api/about", process, Path(log.name))
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(url, process, log, seconds=60):
    """Wait until a server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail(f"the server did not answer: {log.read_text()}")


@pytest.fixture
def open_page(chromium):
    """Open an address in a window of its own; whatever goes wrong in a page fails the test."""
    contexts, troubles = [], []

    def open_one(url, *, width=1440, height=900, **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(MOST_MILLISECONDS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: said.type == "error" and troubles.append(said.text))
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not troubles


@pytest.fixture
def watch(studio, open_page):
    """Open the page on an episode and wait until it is shown."""

    def open_one(query="", **options):
        page = open_page(f"{studio}/?machine={MACHINE}&{query}", **options)
        page.wait_for_selector("[data-t]")
        return page

    return open_one

"""The server that shows the studio's page on this computer."""

import os
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from pomp.core.errors import ConfigError
from pomp.studio.app import make_app

_STOP_SECONDS = 2  # for requests that are under way


def serve(
    root: Path | None, host: str, port: int, *, opens_browser: bool, say: Callable[[str], None]
) -> None:
    """Serve the page until it is interrupted.

    Args:
        root: the folder below which runs and machines are served.
        host: the address to listen on.
        port: the port; 0: any that is free.
        opens_browser: whether to show the page.
        say: called with the page's address.

    Raises:
        ConfigError: the address cannot be used.
    """
    with _listen(host, port) as listening:
        own = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{own}/"
        config = uvicorn.Config(
            make_app(root, host), log_level="warning", access_log=False,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )  # fmt: skip
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # quickest for a network and one world
        say(f"pomp studio: {address} (Ctrl-C ends it)")
        if opens_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        with suppress(KeyboardInterrupt):  # that is how it ends
            uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigError: the port is in use, or the address is none of this computer's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        what = f"cannot listen on {host}:{port}: {error.strerror or error}"
        raise ConfigError(f"{what}; name another --port, or end what uses it") from error

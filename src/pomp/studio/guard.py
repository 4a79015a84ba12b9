"""What stands before the page: only this computer's pages may ask, and not for too much."""

import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from pomp.studio.limits import LIMITS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = ("0.0.0.0", "::")
_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """Refuses requests of other sites and requests that are too long; adds headers to answers.

    A name that somebody else controls can be made to lead to this computer (DNS rebinding), so the
    `Host` must be one that the server was told of, and an `Origin` must be the same.
    """

    def __init__(self, app: Application, host: str = LOOPBACK[0]) -> None:
        """Stand before an application.

        Args:
            app: which.
            host: what the server listens on.
        """
        self._app, self._hosts = app, {*LOOPBACK, host}
        self._takes_addresses = host in _EVERYWHERE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if reason := self._foreign(scope["path"], headers):
            await _refuse(send, 403, reason)
        elif _length(headers) > LIMITS.body:
            await _refuse(send, 413, f"a request has at most {LIMITS.body:,} bytes")
        else:
            await self._app(scope, _bounded(receive), _with_headers(send))

    def _foreign(self, path: str, headers: dict[bytes, str]) -> str:
        """Return why a request comes from elsewhere; nothing if it does not."""
        host = headers.get(b"host", "")
        if not self._is_known(host):
            return "this studio answers under its own address alone"
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "this studio answers its own pages alone"
        if path.startswith("/api") and headers.get(b"sec-fetch-site") == "cross-site":
            return "this studio answers its own pages alone"
        return ""

    def _is_known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        return self._takes_addresses and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _length(headers: dict[bytes, str]) -> int:
    """Return how long a request says it is; one that says it wrongly is too long."""
    given = headers.get(b"content-length", "0")
    return int(given) if given.isascii() and given.isdigit() else LIMITS.body + 1


def _bounded(receive: Receive) -> Receive:
    """Return what receives a request, but no more of it than it may have."""
    taken = 0

    async def receive_some() -> MutableMapping[str, Any]:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LIMITS.body:
            return {"type": "http.disconnect"}
        return message

    return receive_some


def _with_headers(send: Send) -> Send:
    """Return what sends an answer with the headers of every answer."""

    async def send_more(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *_HEADERS]
        await send(message)

    return send_more


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason, "place": None}).encode()
    headers = [(b"content-type", b"application/json"), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

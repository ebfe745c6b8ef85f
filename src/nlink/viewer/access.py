"""Access to a view: for pages of the view's own server only, under its own names.

A browser lets a page of any site open a WebSocket to this machine, and says in `Origin` where the
page is from; viser asks nobody. So a request is refused whose `Origin` is not the address that it
was sent to (`Host`). A stranger's name that was made to lead to this machine (DNS rebinding) would
be both, so `Host` must be an address of numbers, localhost, the name that is listened on, or a name
of this machine: none of them is a stranger's.
"""

from __future__ import annotations

import http
import inspect
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

_STARTING = threading.Lock()


def names_of(host: str) -> frozenset[str]:
    """The names under which a server that listens on `host` may be called, besides numbers."""
    own = socket.gethostname().lower()
    return frozenset({"localhost", host.lower(), own, f"{own.partition('.')[0]}.local"} - {""})


def refusal(names: frozenset[str], hosts: Sequence[str], origins: Sequence[str]) -> str | None:
    """Why a request with these `Host` and `Origin` lines is refused; None if it is not.

    >>> refusal(names_of("localhost"), ["localhost:8080"], ["http://localhost:8080"])
    >>> refusal(names_of("localhost"), ["localhost:8080"], ["http://example.org"])
    "Origin: 'http://example.org', expected a page of localhost:8080"
    >>> refusal(names_of("localhost"), ["example.org:8080"], ["http://example.org:8080"])
    "Host: 'example.org:8080', expected localhost, an address or a name of this machine"
    """
    if len(hosts) != 1 or not _is_own(hosts[0], names):
        return (f"Host: {', '.join(hosts)!a}, expected localhost, an address or a name of this "
                "machine")
    if len(origins) > 1 or any(not _same(origin, hosts[0]) for origin in origins):
        return f"Origin: {', '.join(origins)!a}, expected a page of {hosts[0]}"
    return None


def _is_own(host: str, names: frozenset[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


@contextmanager
def own_pages_only(host: str) -> Iterator[None]:
    """A viser server that is started in this block answers its own pages only.

    viser hands no question about requests on to its users, but asks `websockets` for a server,
    which does; so `serve` of `websockets` has one more question while the block lasts.
    """
    import websockets.asyncio.server as module
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    serve, names, started = module.serve, names_of(host), []

    def answer(then: Callable[..., Any] | None) -> Callable[..., Any]:
        async def check(connection: Any, request: Any) -> Any:
            why = refusal(names, request.headers.get_all("Host"),
                          request.headers.get_all("Origin"))
            if why is not None:
                status = http.HTTPStatus.FORBIDDEN
                return Response(status.value, status.phrase, Headers(
                    {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"}),
                    f"{why}\n".encode())
            found = None if then is None else then(connection, request)
            return await found if inspect.isawaitable(found) else found

        return check

    def checked(*arguments: Any, **options: Any) -> Any:
        started.append(True)
        return serve(*arguments, **options | {
            "process_request": answer(options.get("process_request"))})

    with _STARTING:
        module.serve = checked  # type: ignore[assignment, misc]
        try:
            yield
        finally:
            module.serve = serve
    if not started:
        raise RuntimeError("viser starts its server in a way that nlink does not know, so that any "
                           "web page could look at the view: pip install 'viser<1.2'")

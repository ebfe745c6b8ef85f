"""Who may look at a view: its own pages, under its own names."""

from __future__ import annotations

import http.server
import logging
import threading

import pytest
from browser import chromium, opened

import nlink
from nlink.viewer.access import names_of, own_pages_only, refusal
from nlink.viewer.server import free_port

pytest.importorskip("viser", reason="viser is not installed")


@pytest.mark.parametrize(("host", "origin"), [
    ("localhost:8080", None), ("localhost:8080", "http://localhost:8080"),
    ("LOCALHOST:8080", "http://localhost:8080"), ("localhost:9000", "http://localhost:9000"),
    ("127.0.0.1:8080", "http://127.0.0.1:8080"), ("[::1]:8080", "http://[::1]:8080"),
    ("192.168.0.7:8080", "http://192.168.0.7:8080"), ("arm.example", "https://arm.example")])
def test_own_pages_are_answered(host, origin):
    assert refusal(names_of("arm.example"), [host], [] if origin is None else [origin]) is None


@pytest.mark.parametrize(("hosts", "origins"), [
    ([], []), (["localhost:8080", "evil.example"], []), (["evil.example:8080"], []),
    (["evil.example:8080"], ["http://evil.example:8080"]), (["localhost.evil.example"], []),
    (["127.0.0.1.evil.example"], []), (["localhost@evil.example"], []), (["[::1"], []), ([""], []),
    (["localhost:8080"], ["http://evil.example"]), (["localhost:8080"], ["http://localhost:3000"]),
    (["localhost:8080"], ["null"]), (["localhost:8080"], ["http://127.0.0.1:8080"]),
    (["localhost:8080"], ["http://localhost:8080", "http://evil.example"]),
    (["localhost:8080"], ["file://localhost:8080"]), (["localhost:8080"], ["http://[::1"])])
def test_others_are_refused_in_one_sentence(hosts, origins):
    why = refusal(names_of("localhost"), hosts, origins)
    assert why is not None
    assert ", expected " in why


@pytest.fixture(scope="module")
def view():
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    with nlink.load("planar3").view(host="127.0.0.1") as shown:
        yield shown


@pytest.mark.parametrize(("origin", "host"), [
    ("http://evil.example", None), ("null", None), (None, "evil.example"),
    ("http://evil.example", "evil.example")])
def test_a_socket_of_a_stranger_is_refused(view, origin, host):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    address = view.url.replace("http", "ws")
    if host is not None:
        import socket

        there = socket.create_connection(("127.0.0.1", int(view.url.rpartition(":")[2])))
        address = f"ws://{host}:{view.url.rpartition(':')[2]}"
        origin = None if origin is None else f"{origin}:{view.url.rpartition(':')[2]}"
    else:
        there = None
    with pytest.raises(InvalidStatus) as caught, connect(address, origin=origin, sock=there):
        pass
    assert caught.value.response.status_code == 403


def test_a_socket_of_the_page_itself_is_answered(view):
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    for origin in (view.url, None):
        with connect(view.url.replace("http", "ws"), origin=origin, max_size=None,
                     subprotocols=[Subprotocol(f"viser-v{__import__('viser').__version__}")]
                     ) as connection:
            assert connection.recv(timeout=30)


def test_the_page_is_given_under_its_own_names_only(view):
    import http.client

    for host, status in (("localhost", 200), ("127.0.0.1:1", 200), ("evil.example", 403)):
        asking = http.client.HTTPConnection("127.0.0.1", int(view.url.rpartition(":")[2]))
        asking.request("GET", "/", headers={"Host": host})
        assert asking.getresponse().status == status
        asking.close()


def test_other_servers_are_as_before():
    import websockets.asyncio.server as module

    serve = module.serve
    with pytest.raises(RuntimeError, match="in a way that nlink does not know"), \
            own_pages_only("localhost"):
        pass
    assert module.serve is serve


@pytest.mark.parametrize("host", ["nosuch.invalid", "a" * 70 + ".invalid", "1.2.3.4.5"])
def test_a_host_that_is_not_known_is_said(host):
    with pytest.raises(ValueError, match=r"host: '.*' is no name or address that this machine"):
        free_port(host, None)


@pytest.mark.slow
def test_another_page_in_the_same_browser_reads_nothing(view, tmp_path):
    (tmp_path / "evil.html").write_text(f"""<script>
const socket = new WebSocket("{view.url.replace('http', 'ws')}", "viser-v{
    __import__('viser').__version__}");
socket.onmessage = () => document.title = "read";
socket.onerror = () => document.title = "refused";
</script>""")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given, **more):
            super().__init__(*given, directory=str(tmp_path), **more)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server, \
            chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/evil.html"
        with opened(browser, address, 400) as watched:
            watched.page.wait_for_function("document.title != ''")
            assert watched.page.title() == "refused"
        server.shutdown()

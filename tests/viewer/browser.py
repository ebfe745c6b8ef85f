"""A real browser without a window: Debian's chromium, or one that playwright has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
         "--ignore-gpu-blocklist", "--disable-dev-shm-usage"]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped with a reason where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("NLINK_CHROMIUM") or next(
        (found for name in ("chromium", "chromium-browser", "google-chrome")
         if (found := shutil.which(name))), None)
    with api.sync_playwright() as play:
        try:
            browser = play.chromium.launch(executable_path=path, args=FLAGS)
        except api.Error as error:
            pytest.skip(f"no chromium: {str(error).splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page, what it complained of, and what it asked for."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def outside(self, *allowed: str) -> list[str]:
        return [url for url in self.requests
                if not url.startswith(("file:", "data:", "blob:", "about:", *allowed))]

    def picture(self, selector: str = "canvas") -> np.ndarray:
        """The pixels of a part of the page, as it is shown."""
        import io

        from matplotlib.image import imread

        data = self.page.locator(selector).first.screenshot()
        return np.asarray(imread(io.BytesIO(data), format="png"))[..., :3]


@contextmanager
def opened(browser: Any, url: str, width: int, scheme: str = "light", *, height: int = 800,
           scale: float = 1.0) -> Iterator[Watched]:
    """A page at a width, light or dark, with so many pixels for one of the page's own."""
    context = browser.new_context(viewport={"width": width, "height": height},
                                  color_scheme=scheme, device_scale_factor=scale)
    page = context.new_page()
    watched = Watched(page)
    page.on("console", lambda message: watched.complaints.append(message.text)
            if message.type in ("error", "warning") and "GPU stall" not in message.text
            and "GL Driver" not in message.text else None)
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("request", lambda request: watched.requests.append(request.url))
    page.on("websocket", lambda socket: watched.requests.append(socket.url))
    page.goto(url)
    yield watched
    with suppress(Exception):
        context.close()

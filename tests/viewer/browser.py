"""A real browser without a window: Debian's chromium, or one that playwright has."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

LONGEST = 300.0
"""Seconds after which a page does not do what is waited for, on the busiest machine."""
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

    def settled(self, selector: str = "canvas") -> np.ndarray:
        """The same, when it shows something and no longer changes."""
        before = [self.picture(selector)]

        def still(now: np.ndarray) -> bool:
            before.append(now)
            return now.std() > 0.01 and np.array_equal(*before[-2:])

        return self.until(still, selector)

    def until(self, condition: Callable[[np.ndarray], Any], selector: str = "canvas") -> np.ndarray:
        """The picture of which a condition holds."""
        found = []
        self.wait(lambda: (found.append(self.picture(selector)), condition(found[-1]))[1])
        return found[-1]

    def wait(self, truth: Callable[[], Any]) -> None:
        """Wait for what becomes true, however long that takes a busy machine. Pages forbid the
        `eval` by which playwright would wait."""
        end = time.monotonic() + LONGEST
        while not truth():
            assert time.monotonic() < end, "what is waited for does not happen"
            self.page.wait_for_timeout(20)

    def seconds(self) -> float:
        """What the clock of a motion's page shows."""
        return float(str(self.page.text_content("#clock")).split()[0])


@contextmanager
def opened(browser: Any, url: str, width: int, scheme: str = "light", *, height: int = 800,
           scale: float = 1.0, still: bool = False, touch: bool = False) -> Iterator[Watched]:
    """A page at a width, light or dark, with so many pixels for one of the page's own; `still` for
    a reader who has asked for less motion, `touch` on a screen for fingers."""
    context = browser.new_context(viewport={"width": width, "height": height},
                                  color_scheme=scheme, device_scale_factor=scale,
                                  has_touch=touch, is_mobile=touch,
                                  reduced_motion="reduce" if still else "no-preference")
    page = context.new_page()
    watched = Watched(page)
    page.set_default_timeout(1e3 * LONGEST)
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

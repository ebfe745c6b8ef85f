"""How often a live page is drawn, and how soon it is ready, in chromium without a graphics card.

    python tests/viewer/frames.py [PAGE ...]

makes the page of fifty double pendulums, if no page is given. Frames are counted for five seconds;
the times beside them are of processors, for a frame, and so do not depend on what else runs. Twice:
with chromium's own compositor, and with one that draws on an emulated graphics card, too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

sys.path.append(str(Path(__file__).parents[2] / "docs"))

import browser
import live_gallery

PLAIN = ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader",
         "--disable-dev-shm-usage"]
SECONDS, LOADS = 5.0, 7
COUNT = """(() => { window.drawn = 0; (function count() {
  drawn++; requestAnimationFrame(count); })(); })()"""
READY = """addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  window.readyAfter ??= performance.now(); }).observe(document.documentElement,
  {attributeFilter: ["data-ready"]}))"""


def children() -> Iterator[Path]:
    """The processes that come from this one."""
    for process in Path("/proc").glob("[0-9]*"):
        at = process
        try:
            while at.name not in ("0", "1", str(os.getpid())):
                at = Path("/proc") / (at / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if at.name == str(os.getpid()) and at != process:
            yield process


def processor_seconds() -> float:
    """What all of chromium's processes have spent."""
    total = 0.0
    for process in children():
        try:
            total += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13]))
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


def measure(chromium: browser.Any, path: Path) -> str:
    """Frames of a second, processors' time for one, and when the page was ready."""
    with browser.opened(chromium, "about:blank", 1280) as watched:
        page, loads = watched.page, []
        page.add_init_script(READY)
        for _ in range(LOADS):
            page.goto(path.as_uri())
            watched.wait(lambda: page.evaluate("window.readyAfter ?? 0"))
            loads.append(page.evaluate("readyAfter"))
        page.evaluate(COUNT)
        page.wait_for_timeout(1000)
        spent, before, begin = processor_seconds(), page.evaluate("drawn"), time.perf_counter()
        page.wait_for_timeout(1e3 * SECONDS)
        frames, seconds = page.evaluate("drawn") - before, time.perf_counter() - begin
        spent = processor_seconds() - spent
    loads.sort()
    return (f"{frames / seconds:5.1f} frames a second, {1e3 * spent / frames:5.1f} ms of "
            f"processors each; ready after {loads[0]:.0f} ms, median {loads[LOADS // 2]:.0f}, "
            f"at most {loads[-1]:.0f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pages = [Path(x).resolve() for x in sys.argv[1:]]
        if not pages:
            pages = [Path(folder) / "fifty-pendulums.html"]
            live_gallery.fifty_pendulums(pages[0])
        for name, flags in (("plain", PLAIN), ("emulated", browser.FLAGS)):
            with mock.patch.object(browser, "FLAGS", flags), browser.chromium() as chromium:
                for path in pages:
                    print(f"{path.stem:20} {name:9} {measure(chromium, path)}", flush=True)


if __name__ == "__main__":
    main()

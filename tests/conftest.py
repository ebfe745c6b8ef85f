"""What every test shares: a private kernel cache, and Hypothesis that repeats itself."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from nlink.engines import engines

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate))  # to shrink what fails takes minutes: "explore" does
settings.register_profile("explore", settings.get_profile("repeatable"), derandomize=False,
                          max_examples=500, phases=tuple(Phase))
settings.load_profile("repeatable")


SAMPLED = dict.fromkeys(("simulation", "storage", "loops", "iterations", "programs", "kinematics",
                         "derivatives", "studies", "closed_forms", "model", "viewer", "platforms"),
                        1) | dict.fromkeys(("formats", "backends", "algorithms", "denoc", "koz95",
                                            "rk88"), 2)
"""Folders whose parameters are methods, engines and seeds: one or two of them do for the fast
part."""


# a shell's background jobs ignore Ctrl-C, and so would these tests and all that they start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = ("test_types.py", "test_reports.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay until the end: the garbage collector need not look at them, neither
    while they are loaded nor later, which takes a quarter of the time of loading them. Afterwards
    it looks less often, which takes a twentieth of the time of tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`sampled(n)`: of a test's many parameters the fast part runs the first n. What takes longest
    begins first, so that no worker waits for it at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    seen: dict[str, int] = {}
    for item in items:
        mark = item.get_closest_marker("sampled")
        most = SAMPLED.get(item.path.parent.name) if mark is None else mark.args[0]
        if most is not None:
            name = item.nodeid.partition("[")[0]
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > most:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="session")
def _private_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels of this session only, shared by its processes: no test depends on what an earlier
    session left. Processes that tests start keep their bytecode, even where a shell says that
    Python is to keep none: they would compile all of nlink anew, each of them."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels"
    shared.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NLINK_CACHE", str(shared))
        patched.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture
def roll(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A call after which all code is rolled that can be, of robots made in the rest of the test."""
    def all_that_can_be() -> None:
        monkeypatch.setattr(engines, "FEW_FOR_STRAIGHT", 0)
        monkeypatch.setattr(engines, "most_straight", lambda _rolled: 0)

    return all_that_can_be


class Interrupted(Exception):
    """What stops a simulation that looks at its progress."""


@pytest.fixture
def until_done() -> Callable[..., tuple[Any, list[float]]]:
    """A run that is stopped at every n-th look at its progress and asked for again until it is
    done: simulate(progress), n, and what to check after each stop, given all looks so far.
    Gives the run, and the looks."""

    def until_done(simulate: Callable[..., Any], n: int,
                   between: Callable[[list[float]], None]) -> tuple[Any, list[float]]:
        looks: list[float] = []

        def interrupt(share: float) -> None:
            looks.append(share)
            if len(looks) % n == 0:
                raise Interrupted

        for _ in range(10_000):
            try:
                return simulate(interrupt), looks
            except Interrupted:
                between(looks)
        raise AssertionError("the run does not end")

    return until_done

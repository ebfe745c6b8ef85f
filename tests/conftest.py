"""What every test shares: a private kernel cache, and Hypothesis that repeats itself."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=25,
    suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", settings.get_profile("repeatable"), derandomize=False,
                          max_examples=500)
settings.load_profile("repeatable")


SAMPLED = {"simulation": 2, "closed": 2}
"""Folders whose parameters are methods, engines and seeds: a few of them do for the fast part."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`sampled(n)`: of a test's many parameters the fast part runs the first n."""
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
def _private_kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Kernels of this session only: no test depends on what an earlier session left."""
    before = os.environ.get("NLINK_CACHE")
    os.environ["NLINK_CACHE"] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ["NLINK_CACHE"]
    else:
        os.environ["NLINK_CACHE"] = before

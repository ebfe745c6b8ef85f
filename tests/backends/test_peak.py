"""The measured limit of the core is a plausible number."""

from __future__ import annotations

from nlink.backends.llvm.host import host
from nlink.bench.machine_limits import fma_peak


def test_peak_is_between_one_and_four_vector_operations_a_cycle():
    per_lane = fma_peak(0.05) / host().target.width
    assert 2e8 < per_lane < 4e10

"""The instructions of a kernel are those its operations need, and a bound is their time."""

from __future__ import annotations

import platform

import pytest

import nlink
from nlink.backends.llvm.code import lower
from nlink.backends.llvm.host import host
from nlink.backends.llvm.passes import optimize
from nlink.bench.bench_tables import markdown
from nlink.bench.machine_limits import MEASURED, count_instructions, machine_limits, measured_rates
from nlink.bench.timing import Bench

AVX = platform.machine().lower() in ("x86_64", "amd64") and host().target.width >= 4


@pytest.mark.skipif(not AVX, reason="the instructions counted are those of AVX")
def test_instructions_are_at_least_the_operations_of_the_code():
    program = nlink.load("planar3").request("forward_dynamics").program()
    limits = machine_limits("planar3 forward_dynamics", program, dict.fromkeys(MEASURED, 1e9))
    code = optimize(lower(program.results), fma=host().target.fma)
    products = sum(i.op in ("mul", "fma", "fms", "fnma", "fnms") for i in code.instructions)
    divisions = sum(i.op in ("div", "sqrt") for i in code.instructions)
    assert limits.instructions["products"] > products  # sine and cosine have more
    assert limits.instructions["divisions"] == divisions
    width = host().target.width
    assert limits.bounds["products"] == limits.instructions["products"] / 1e9 / width
    table = markdown(Bench("a core", {}, [], 1.0, limits=[limits]))
    assert f"| planar3 |  | {limits.instructions['products']}: " in table


def test_what_an_instruction_reads_and_writes():
    text = ("piece0_block:\n\tvmovapd\t%ymm0, 32(%rsp)\n\tvfmadd213pd\t(%rdi), %ymm1, %ymm2\n"
            ".LBB0_2:\n\tvmulpd\t%ymm0, %ymm0, %ymm0\n\tcallq\treduce_large\n"
            "one:\n\tvaddpd\t%ymm0, %ymm1, %ymm2\n")
    assert count_instructions(text) == {
        "all": 2, "stores": 1, "spills": 1, "loads": 1, "products": 1}


def test_every_kind_of_instruction_has_a_rate():
    rates = measured_rates(0.001)
    assert set(rates) == set(MEASURED)
    assert all(1e6 < rate < 1e11 for rate in rates.values())

"""Every pass keeps every value, and does what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import random_program

from nlink.backends.llvm.code import lower
from nlink.backends.llvm.passes import (
    fuse,
    interleave,
    most_alive,
    move_negations,
    optimize,
    schedule,
    share_reciprocals,
    with_results_in_order,
)
from nlink.backends.llvm.pieces import Slot, cut
from nlink.scalars.graph import Graph

PASSES = [share_reciprocals, move_negations, fuse, schedule, interleave]


def ops(code):
    return [i.op for i in code.instructions]


def assert_same(values, expected):
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("change", PASSES)
@pytest.mark.parametrize("seed", range(12))
def test_a_pass_changes_no_value(change, seed):
    program = random_program(seed, size=80)
    before = lower(program.results)
    rng = np.random.default_rng(seed)
    inputs = {i.name: rng.normal(size=5) for i in before.instructions if i.op == "input"}
    assert_same(change(before)(inputs), before(inputs))


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_all_passes_together_change_no_value(seed, fma):
    program = random_program(seed, size=120)
    before = lower(program.results)
    after = optimize(before, fma=fma)
    rng = np.random.default_rng(seed)
    inputs = {i.name: rng.normal(size=5) for i in before.instructions if i.op == "input"}
    assert_same(after(inputs), before(inputs))
    assert fma or not {"fma", "fms", "fnma", "fnms"} & set(ops(after))


@pytest.mark.parametrize("change", PASSES)
def test_arguments_come_before_their_readers(change):
    code = change(lower(random_program(3, size=200).results))
    assert all(a < k for k, i in enumerate(code.instructions) for a in i.args)


def test_a_shared_divisor_is_divided_by_once():
    g = Graph()
    a, b, d = (g.input(x) for x in "abd")
    code = share_reciprocals(lower([a / d, b / d, 1 / d]))
    assert ops(code).count("div") == 1
    assert ops(code).count("mul") == 2
    alone = share_reciprocals(lower([a / d, b / a]))
    assert ops(alone).count("div") == 2
    assert ops(alone).count("mul") == 0


def test_negations_move_into_constants_and_differences():
    g = Graph()
    a, b, c = (g.input(x) for x in "abc")
    assert "neg" not in ops(move_negations(lower([-(3 * a), -((a - b) * c)])))
    # not if someone else needs the positive value
    assert "neg" in ops(move_negations(lower([-(a * b), a * b])))


def test_products_fuse_into_all_their_sums_or_none():
    g = Graph()
    a, b, c, d = (g.input(x) for x in "abcd")
    code = fuse(lower([a * b + c, d - a * b]))
    assert sorted(i for i in ops(code) if i != "input") == ["fma", "fnma"]
    code = fuse(lower([a * b + c, a * b]))
    assert sorted(i for i in ops(code) if i != "input") == ["add", "mul"]
    code = fuse(lower([-(a * b + c), a * b - d]))
    assert sorted(i for i in ops(code) if i != "input") == ["fms", "fnms"]


def test_one_sum_absorbs_one_product():
    g = Graph()
    a, b, c, d = (g.input(x) for x in "abcd")
    assert sorted(i for i in ops(fuse(lower([a * b + c * d]))) if i != "input") == ["fma", "mul"]


def test_schedule_keeps_few_values_alive():
    g = Graph()
    products = [g.input(f"a[{k}]") * g.input(f"b[{k}]") for k in range(50)]
    total = products[0]
    for p in products[1:]:
        total = total + p
    code = schedule(lower([total]))
    last = {a: k for k, i in enumerate(code.instructions) for a in i.args}
    alive = max(sum(k <= now < last.get(k, 10**9) for k in range(len(code.instructions)))
                for now in range(len(code.instructions)))
    assert alive <= 5


def test_results_in_another_order_are_the_same_and_keep_other_values_alive():
    """Rows of products a_i b_j first need every b_j; columns need one at a time."""
    g = Graph()
    a, b = [g.input(f"a[{k}]") for k in range(2)], [g.input(f"b[{k}]") for k in range(20)]
    roots = [x * x for x in b]
    code = schedule(lower([x * y for x in a for y in roots]))
    columns = with_results_in_order(code, sorted(range(40), key=lambda k: k % 20))
    inputs = {x.name: float(k) for k, x in enumerate([*a, *b])}
    assert columns(inputs) == code(inputs)
    assert most_alive(code) == 20
    assert most_alive(columns) == 1


def test_interleave_puts_independent_chains_side_by_side():
    g = Graph()
    chains = []
    for k in range(2):
        total = g.input(f"a[{k}]")
        for _ in range(20):
            total = total * total + g.const(0.5)
        chains.append(total)
    code = interleave(schedule(lower(chains)))
    waits = [k - a for k, i in enumerate(code.instructions) for a in i.args
             if code.instructions[a].args]
    assert min(waits) >= 2


@pytest.mark.parametrize(("seed", "piece"), [(0, 5), (1, 20), (2, 60), (3, 7), (4, 5000)])
@pytest.mark.parametrize("direct", [True, False])
def test_pieces_compute_the_bits_of_the_whole(seed, piece, direct):
    program = random_program(seed, size=150)
    g = program.results[0].graph
    whole = schedule(lower([*program.results, program.results[0], g.const(0.0), g.input("a[0]")]))
    pieces = cut(whole, piece, direct=direct)
    assert (len(pieces.pieces) > 1) == (piece < 5000)
    rng = np.random.default_rng(seed)
    names = {i.name for i in whole.instructions if i.op == "input"}
    inputs = {name: rng.normal(size=5) for name in names}
    slots, results = {}, {}
    for each in pieces.pieces:
        values = each.code(inputs | {Slot(k): x for k, x in slots.items()})
        slots.update(zip(each.slots, values, strict=False))
        results.update(zip(each.outputs, values[len(each.slots):], strict=True))
    assert max(slots, default=-1) < pieces.size
    results.update((k, slots[slot]) for k, slot in enumerate(pieces.results))
    for k, wanted in enumerate(whole(inputs)):
        np.testing.assert_array_equal(np.broadcast_to(results[k], 5), np.broadcast_to(wanted, 5))

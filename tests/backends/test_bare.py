"""The bare call takes exactly what it was made for and refuses the rest by name."""

from __future__ import annotations

import functools
import sys
import threading

import numpy as np
import pytest
from random_programs import random_arrays, random_program

from nlink.backends.llvm import native
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.translate import compile_program

PROGRAM = random_program(11, shapes=((6,), (2, 3), ()), outs=((4,),))


@pytest.fixture(scope="module")
def kernel():
    return Kernel(compile_program(PROGRAM))


@pytest.fixture(params=["native", "python"])
def bare(request, kernel):
    if request.param == "python":
        return kernel._checked
    if not native.supported():
        pytest.skip("no native call on this interpreter")
    assert type(kernel.bare) is type(len)
    return kernel.bare


@pytest.fixture
def state():
    return [x[0] for x in random_arrays(PROGRAM, 1)[:2]] + [np.array(0.5)]


def test_it_writes_and_returns_the_output(bare, kernel, state):
    out = np.zeros(4)
    assert bare(*state, out) is out
    assert (out == kernel(*state)).all()


def test_the_output_may_be_left_out_or_overlap(bare, kernel, state):
    expected = kernel(*state)
    assert (bare(*state) == expected).all()
    room = np.zeros(10)
    room[:6] = state[0]
    for begin in range(7):
        shared = room.copy()
        bare(shared[:6], *state[1:], shared[begin:begin + 4])
        assert (shared[begin:begin + 4] == expected).all()


@pytest.mark.parametrize("count", [0, 1, 2, 21, 100_000])
def test_batches_are_computed_too(bare, kernel, count):
    arrays = random_arrays(PROGRAM, count)
    out = np.empty((count, 4))
    assert bare(*arrays, out) is out
    assert (out == kernel(*arrays, threads=1)).all()


@pytest.mark.parametrize("lead", [(3, 7), (2, 1, 5), (0, 4)])
def test_several_leading_dimensions(kernel, lead):
    flat = random_arrays(PROGRAM, int(np.prod(lead)))
    arrays = [x.reshape(*lead, *x.shape[1:]) for x in flat]
    expected, out = kernel(*flat).reshape(*lead, 4), np.zeros((*lead, 4))
    assert kernel(*arrays).tobytes() == expected.tobytes()
    assert kernel(*arrays).shape == expected.shape
    assert kernel(*arrays, out=out) is out
    assert out.tobytes() == expected.tobytes()
    shared = np.zeros((*lead, 6))  # the output among the input
    shared[...] = arrays[0]
    kernel(shared, *arrays[1:], out=shared[..., :4])
    assert (shared[..., :4] == expected).all()
    if np.prod(lead):  # broadcast against each other
        some = [arrays[0][:1], arrays[1].reshape(-1, 2, 3)[0], arrays[2][0]]
        full = [np.broadcast_to(x, (*lead, *port.shape)).copy()
                for x, port in zip(some, PROGRAM.inputs, strict=True)]
        assert kernel(*some).tobytes() == kernel(*full)[:1].tobytes()


def test_batches_of_different_sizes_or_overlapping(bare, kernel):
    arrays = random_arrays(PROGRAM, 21)
    for bad in (20, 22):
        with pytest.raises(ValueError, match="out"):
            bare(*arrays, np.empty((bad, 4)))
    with pytest.raises(ValueError, match="broadcast"):
        bare(arrays[0], arrays[1][:5], arrays[2], np.empty((21, 4)))
    expected = kernel(*arrays)
    room = np.zeros(21 * 6 + 8)
    for begin in (0, 3, 8):
        room[:21 * 6] = arrays[0].ravel()
        bare(room[:21 * 6].reshape(21, 6), *arrays[1:], room[begin:begin + 84].reshape(21, 4))
        assert (room[begin:begin + 84].reshape(21, 4) == expected).all()


ROWS = {"plain": lambda x: x, "one": lambda x: x[3:4], "no dimension": lambda x: np.array(x[3]),
        "reversed": lambda x: x[::-1], "repeated": lambda x: np.broadcast_to(x[0], x.shape),
        "apart": lambda x: np.pad(x.reshape(len(x), -1), [(0, 0), (0, 3)])[:, :x[0].size].reshape(
            x.shape), "every other": lambda x: np.repeat(x, 2, axis=0)[::2]}


def native_only(kernel):
    if not native.supported():
        pytest.skip("no native call on this interpreter")

    def refuse(*_):
        raise AssertionError("left to Python")

    return kernel._builtin(refuse, absent=True)


@pytest.mark.parametrize("layout", ROWS)
@pytest.mark.parametrize("where", [0, 1, 2])
def test_rows_any_number_of_bytes_apart_and_broadcasts_are_native(kernel, layout, where):
    take, arrays = native_only(kernel), random_arrays(PROGRAM, 21)
    arrays[where] = ROWS[layout](arrays[where])
    expected = kernel._by_convention(*arrays, None)
    assert take(*arrays, None).tobytes() == expected.tobytes()
    for out in (np.zeros((42, 4))[::-2], np.zeros((21, 9))[:, 3:7], np.zeros((21, 4))):
        assert take(*arrays, out) is out
        assert (out == expected).all()


def test_one_state_or_none_in_a_batch_is_broadcast(kernel):
    take, arrays = native_only(kernel), random_arrays(PROGRAM, 5)
    for count in (0, 1):
        some = [arrays[0][:count], arrays[1][0], arrays[2][:1]]
        found = take(*some, None)
        assert found.shape == (count, 4)
        assert (found == kernel._by_convention(*some, None)).all()
    with pytest.raises(ValueError, match="broadcast"):
        kernel(arrays[0][:0], arrays[1][:3], arrays[2][:1])


def test_rows_that_share_memory_are_written_apart(kernel):
    arrays = random_arrays(PROGRAM, 21)
    expected, room = kernel(*arrays), np.zeros((42, 6))
    for out in (room[::2, :4], room[1::2, 2:], room[21:, :4][::-1], room[:21, 1:5]):
        room[::2] = arrays[0]
        kernel(room[::2], *arrays[1:], out=out)
        assert (out == expected).all()
    with pytest.raises(ValueError, match="read-only"):
        kernel(*arrays, out=np.broadcast_to(0.0, (21, 4)))
    rolling = np.lib.stride_tricks.as_strided(np.zeros(99), (21, 4), (8, 8))
    kernel(*arrays, out=rolling)  # rows overlap: the last one is whole
    assert (rolling[-1] == expected[-1]).all()


def test_what_is_no_row_is_left_to_python(kernel):
    take, arrays = native_only(kernel), random_arrays(PROGRAM, 21)
    for where, bad in ((0, np.asfortranarray(arrays[0])), (0, arrays[0][:, ::-1]),
                       (1, arrays[1].swapaxes(1, 2).copy().swapaxes(1, 2)),
                       (0, arrays[0].astype(np.float32)), (0, arrays[0][:20]), (2, arrays[2][:2]),
                       (1, arrays[1][None]), (0, unaligned((21, 6))), (2, unaligned((21,)))):
        some = [*arrays]
        some[where] = bad
        with pytest.raises(AssertionError, match="left to Python"):
            take(*some, None)
        if len(bad) == 21:
            assert (kernel(*some) == kernel._by_convention(*some, None)).all()


def unaligned(shape):
    size = int(np.prod(shape)) * 8
    return np.zeros(size + 1, np.uint8)[1:].view(np.float64).reshape(shape)


class Sub(np.ndarray):
    pass


WRONG = {
    "none": (None, TypeError), "a number": (1.0, TypeError), "a string": ("q", TypeError),
    "a list": ([0.0] * 6, TypeError), "bytes": (bytes(48), TypeError),
    "the type itself": (np.ndarray, TypeError), "a subclass": (np.zeros(6).view(Sub), TypeError),
    "a masked array": (np.ma.zeros(6), TypeError),
    "a memoryview": (memoryview(bytes(48)), TypeError),
    "float32": (np.zeros(6, np.float32), TypeError), "int64": (np.zeros(6, int), TypeError),
    "big-endian": (np.zeros(6, ">f8"), TypeError), "complex": (np.zeros(6, complex), TypeError),
    "objects": (np.array([None] * 6), TypeError), "a structure": (np.zeros(6, "f8,f8"), TypeError),
    "too short": (np.zeros(5), ValueError), "too long": (np.zeros(7), ValueError),
    "empty": (np.zeros(0), ValueError), "no dimension": (np.array(1.0), ValueError),
    "transposed": (np.zeros((6, 2)), ValueError), "huge": (np.zeros((1, 1, 6, 1)), ValueError),
    "strided": (np.zeros(12)[::2], ValueError), "reversed": (np.zeros(6)[::-1], ValueError),
    "broadcast": (np.broadcast_to(1.0, (6,)), ValueError),
    "unaligned": (unaligned((6,)), ValueError),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("where", [0, 1, 3])
def test_a_wrong_argument_raises_and_is_named(bare, state, what, where):
    value, error = WRONG[what]
    arguments = [*state, np.zeros(4)]
    arguments[where] = value
    with pytest.raises(error, match=["a", "b", "c", "u"][where]):
        bare(*arguments)


def test_read_only_inputs_are_fine_and_read_only_outputs_are_not(bare, kernel, state):
    for x in state:
        x.flags.writeable = False
    out = np.zeros(4)
    assert (bare(*state, out) == kernel(*state)).all()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        bare(*state, out)
    assert not np.zeros(4).any()


def test_wrong_numbers_of_arguments_and_keywords(bare, state):
    for count in (0, 1, 2, 5, 20):
        with pytest.raises(TypeError):
            bare(*([np.zeros(6)] * count))
    with pytest.raises(TypeError):
        bare(*state, out=np.zeros(4))


def test_references_balance(bare, state):
    out = np.zeros(4)
    before = [sys.getrefcount(x) for x in (*state, out)]
    for _ in range(1000):
        bare(*state, out)
        with pytest.raises(TypeError):
            bare(*state, None)
    assert [sys.getrefcount(x) for x in (*state, out)] == before


def test_several_python_threads(bare, kernel, state):
    expected = kernel(*state)
    wrong = []

    def work():
        out = np.zeros(4)
        for _ in range(300):
            if not (bare(*state, out) == expected).all():
                wrong.append(out.copy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_layout_check_notices_a_difference(monkeypatch):
    assert native._layout_agrees(np.zeros((2, 3)))
    for name in ("DATA", "NDIM", "SHAPE", "STRIDES", "DESCR", "FLAGS"):
        with monkeypatch.context() as patch:
            patch.setattr(native, name, 48)  # the array whose memory it is
            assert not native._layout_agrees(np.arange(12.0).reshape(3, 4)[::-1, ::2])


def test_without_native_support_the_same_call_is_python(monkeypatch, state):
    monkeypatch.setattr(native, "supported", lambda: False)
    kernel = Kernel(compile_program(PROGRAM))
    assert type(kernel.bare) is not type(len)
    out = np.zeros(4)
    assert kernel.bare(*state, out) is out
    assert (kernel(*state) == out).all()


MADE = {outs: random_program(12, shapes=((6,), (2, 3), ()), outs=outs)
        for outs in (((4,),), ((2, 3),), ((),), ((4,), (2, 2)), ((3,), ()))}


@functools.cache
def made(outs: tuple[tuple[int, ...], ...]) -> Kernel:
    return Kernel(compile_program(MADE[outs]))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("count", [None, 0, 1, 21, 5000])
@pytest.mark.parametrize("outs", MADE)
def test_results_that_are_made_natively_are_those_of_python(outs, count):
    program, kernel = MADE[outs], made(outs)
    arrays = random_arrays(program, 1 if count is None else count)
    arrays = [x[0] if count is None and x.ndim > 1 else x for x in arrays]
    if count is None:
        arrays[2] = np.array(0.5)
    found, wanted = kernel.plain(*arrays, None), kernel._general(*arrays, None)
    if len(outs) == 1:
        found, wanted = (found,), (wanted,)
    assert [type(x) for x in (found, *found)] == [type(x) for x in (wanted, *wanted)]
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.tobytes() == y.tobytes()


def test_references_balance_where_results_are_made(kernel, state):
    none, kept = sys.getrefcount(None), [sys.getrefcount(x) for x in state]
    found = [kernel.plain(*state, None) for _ in range(1000)]
    assert {sys.getrefcount(x) for x in found} == {sys.getrefcount(np.zeros(4)) + 2}
    assert [sys.getrefcount(x) for x in state] == kept
    assert abs(sys.getrefcount(None) - none) < 100
    assert len({x.__array_interface__["data"] for x in found}) == 1000


def test_one_array_too_many_is_no_output(kernel, state):
    more = np.zeros(4)
    with pytest.raises(TypeError, match="4 arrays given, expected 3"):
        kernel(*state, more)
    assert not more.any()


def test_without_functions_of_numpy_results_are_made_by_python(monkeypatch, state):
    unknown = native._process() | {"new_array": 0, "scalar_of": 0}
    monkeypatch.setattr(native, "_process", lambda: unknown)
    kernel = Kernel(compile_program(PROGRAM))
    out = np.zeros(4)
    assert kernel.bare(*state, out) is out
    assert (kernel(*state) == out).all()

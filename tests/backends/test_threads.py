"""Threads, signals, forks and the end of the interpreter: nothing hangs, nothing crashes.

What could take the tests down with it happens in a child process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from random_programs import random_arrays, random_program, random_rolled_program

import nlink
from nlink.backends.llvm import team, threads, translate
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.threads import Trials, together
from nlink.engines.engines import kernel
from nlink.testing import random_robot

LONGEST = 600
"""Seconds after which something hangs, on the busiest machine."""
PREPARED = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import atexit, gc, os, random, signal, threading, time
import numpy as np
import nlink
from random_programs import random_arrays, random_program
from nlink.backends.llvm.kernel import Kernel
from nlink.backends.llvm.translate import compile_program
program = random_program(11, size=40, shapes=((6,),), outs=((4,),))
kernel = Kernel(compile_program(program))
"""


def child(script: str, **environment: str) -> str:
    """What a process printed that ended well."""
    done = subprocess.run([sys.executable, "-c", PREPARED + script], capture_output=True,
                          text=True, timeout=LONGEST, env=os.environ | environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def at_once(work: Callable[[int], None], count: int) -> None:
    """So many threads, which begin together."""
    start = threading.Barrier(count)

    def begin(k: int) -> None:
        start.wait()
        work(k)

    working = [threading.Thread(target=begin, args=(k,)) for k in range(count)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()


def test_all_jobs_are_done_by_several_threads():
    meet, seen = threading.Barrier(2, timeout=LONGEST), []

    def job():
        meet.wait()  # passes only if two jobs run at once
        seen.append(threading.current_thread())

    together([job] * 4)
    assert len(seen) == 4
    assert len(set(seen)) > 1


def test_an_error_is_raised_when_all_that_runs_is_done():
    meet, seen = threading.Barrier(2, timeout=LONGEST), []

    def fail():
        meet.wait()
        raise ValueError("of a job")

    def last():
        meet.wait()
        seen.append(1)

    with pytest.raises(ValueError, match="of a job"):
        together([fail, last])
    assert seen == [1]


def test_without_threads_the_caller_does_it_all(monkeypatch):
    def no_thread(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_helpers", threads._Helpers())
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    seen = []
    together([lambda: seen.append(threading.current_thread())] * 3)
    assert seen == [threading.current_thread()] * 3


@pytest.mark.slow
def test_repeated_interrupts_wait_for_all_jobs():
    assert child("""
from nlink.backends.llvm.threads import together
from nlink.engines.engines import kernel
meet, seen = threading.Barrier(3), []
def job():
    meet.wait()
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    seen.append(1)
try:
    together([job] * 3)
except KeyboardInterrupt:
    print(len(seen), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""" if threads.cores() > 1 else "print(3, True)") == "3 True\n"


INTERRUPTED = """
over, armed, seen = [], [False], [0]
def interrupt(_, frame):
    # within nlink only: two signals in a row are not to end the lines that count them
    if armed[0] and frame.f_code.co_name not in ("batch", "run"):
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
def send():
    chance = random.Random(1)
    while not over:
        time.sleep(chance.uniform(0, 0.01))
        for _ in range(chance.randrange(1, 4)):
            os.kill(os.getpid(), signal.SIGINT)
sender = threading.Thread(target=send)
sender.start()
robot = nlink.load("planar3")
def simulate():
    nlink.simulate(robot, np.ones((64, 3)), t=1.0, every=0.01, threads=2)
def share(arrays, out):
    kernel(*arrays, out=out, threads=3)
def batch():
    arrays = random_arrays(program, 50_000)
    out = np.zeros((50_000, 4))
    try:
        armed[0] = True
        share(arrays, out)
        armed[0] = False
    except KeyboardInterrupt:
        armed[0] = False
        seen[0] += 1
        before = out.tobytes()
        time.sleep(0.001)
        assert out.tobytes() == before
def run():
    try:
        armed[0] = True
        simulate()
        armed[0] = False
    except KeyboardInterrupt:
        armed[0] = False
        seen[0] += 1
while seen[0] < 60:
    batch()
    run()
over.append(True)
sender.join()
print("interrupted")
"""


@pytest.mark.slow
def test_interrupts_at_random_moments():
    """Nothing crashes, and nothing is written after an interrupted call has been left."""
    assert child(INTERRUPTED) == "interrupted\n"


@pytest.mark.slow
def test_batches_and_simulations_at_exit():
    assert child("""
arrays, robot = random_arrays(program, 1000), nlink.load("planar3")
expected = kernel(*arrays, threads=2)
def simulate():
    return nlink.simulate(robot, np.ones((8, 3)), t=0.1, every=0.1, threads=2).q
states = simulate()
def last():
    print((kernel(*arrays, threads=2) == expected).all(), (simulate() == states).all())
atexit.register(last)
""") == "True True\n"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_compiles():
    assert child("""
import warnings
warnings.simplefilter("ignore")  # of forks in a process with threads: that is what is tested
stop = False
def compile_on():
    while not stop:
        Kernel(compile_program(program))
other = threading.Thread(target=compile_on)
other.start()
arrays = random_arrays(program, 1000)
expected, codes = kernel(*arrays, threads=2), []
for _ in range(3):
    time.sleep(0.003)
    pid = os.fork()
    if not pid:
        good = (Kernel(compile_program(program))(*arrays, threads=2) == expected).all()
        os._exit(0 if good else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
stop = True
other.join()
print(set(codes))
""") == "{0}\n"


@pytest.mark.slow
def test_a_fork_while_another_thread_asks_for_its_first_torques():
    """Robots, not kernels: properties that are computed once, and names that are loaded late."""
    assert child("""
import warnings
warnings.simplefilter("ignore")
def ask(a):
    row = {"joint": "revolute", "a": a, "mass": 1.0, "com": (-0.5, 0, 0), "inertia": (0.1,) * 3}
    nlink.Robot.from_dh([row] * 3).gravity_torque(np.zeros(3))
other = threading.Thread(target=lambda: [ask(2.0 + k) for k in range(12)])
other.start()
codes = []
for k in range(6):
    time.sleep(0.02)
    pid = os.fork()
    if not pid:
        signal.alarm(300)
        ask(20.0 + k)
        os._exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
other.join()
print(set(codes))
""", NLINK_CACHE="off") == "{0}\n"


@pytest.mark.slow
def test_an_interrupt_is_heard_between_pieces():
    """The piece that is being compiled is finished, no other begun, and no lock left behind."""
    assert child("""
import functools
from nlink.backends.llvm import emit, host, pieces
emit.cut = functools.partial(pieces.cut, piece=6)
made, machine = [], host._machine
def interrupted(*given):
    made.append(1)
    if len(made) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return machine(*given)
host._machine = interrupted
try:
    compile_program(program)
except KeyboardInterrupt:
    print("interrupted after", len(made))
pieced, arrays = [], random_arrays(program, 9)
other = threading.Thread(target=lambda: pieced.append(Kernel(compile_program(program))))
other.start()
other.join()
print(len(made) > 8, pieced[0](*arrays).tobytes() == kernel(*arrays).tobytes())
""") == "interrupted after 3\nTrue True\n"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
@pytest.mark.slow
def test_a_slow_compile_is_told_of_on_a_terminal_only():
    script = """
import time
from nlink.backends.llvm import loading, translate
loading.SLOW, compile_program, tell = 0.01, translate.compile_program, loading._tell
told = threading.Event()
loading._tell = lambda: (tell(), told.set())
def compile_slowly(*args):
    told.wait(600) if sys.stderr.isatty() else time.sleep(0.1)
    return compile_program(*args)
translate.compile_program = compile_slowly
loading.load_kernel(random_program(5, size=10))
"""
    assert child(script, NLINK_CACHE="off") == ""
    terminal, ours = os.openpty()
    subprocess.run([sys.executable, "-c", PREPARED + script], stderr=ours, timeout=LONGEST,
                   check=True, env=os.environ | {"NLINK_CACHE": "off"})
    os.close(ours)
    told = os.read(terminal, 10_000).decode()
    assert re.fullmatch(r"nlink: still compiling after 0.01 s, .* \(Ctrl-C stops it\)\r\n", told)


def test_equal_robots_share_a_kernel(monkeypatch):
    monkeypatch.setenv("NLINK_CACHE", "off")
    first, second = (random_robot(5, 4) for _ in range(2))
    assert kernel(first.request("bias")) is kernel(second.request("bias"))


@pytest.mark.slow
def test_nothing_of_a_collected_kernel_is_read_again():
    """With an allocator that spoils what was freed."""
    assert child("""
compiled = compile_program(program)
kernels = [Kernel(compiled) for _ in range(20)]
for each in kernels:
    each(np.zeros(6))
    each.bare(np.zeros(6), np.zeros(4))
del each, kernels
gc.collect()
print("alive")
""", PYTHONMALLOC="malloc", MALLOC_PERTURB_="2") == "alive\n"


def test_threads_that_ask_for_one_kernel_share_it(monkeypatch):
    monkeypatch.setenv("NLINK_CACHE", "off")
    compiled, compile_program = [], translate.compile_program
    monkeypatch.setattr(translate, "compile_program",
                        lambda *args: compiled.append(1) or compile_program(*args))
    robot, answers = random_robot(5, bodies=4), []
    at_once(lambda _k: answers.append(robot.gravity_torque(robot.neutral)), 16)
    assert len(compiled) == 1
    assert len({answer.tobytes() for answer in answers}) == 1
    assert np.isfinite(answers).all()


def test_no_more_threads_than_allowed_share_the_jobs():
    seen = set()
    together([lambda: seen.add(threading.current_thread())] * 16, most=1)
    assert seen == {threading.current_thread()}


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_numbers_of_threads_that_are_none_are_refused(wrong):
    program = random_program(11, size=40, shapes=((6,),), outs=((4,),))
    kernel = Kernel(translate.compile_program(program))
    with pytest.raises(ValueError, match=r"threads: .*expected a whole number of at least 1"):
        kernel(*random_arrays(program, 1000), threads=wrong)


@pytest.mark.slow
def test_one_thread_starts_no_other():
    assert child("""
kernel(*random_arrays(program, 500_000))
print([thread.name for thread in threading.enumerate()])
""", NLINK_THREADS="1") == "['MainThread']\n"


@pytest.mark.slow
def test_batches_of_many_threads_at_once_are_right():
    """One of them leads helpers, the others find the board taken."""
    program = random_program(11, size=40, shapes=((6,),), outs=((4,),))
    kernel = Kernel(translate.compile_program(program))
    sizes = [129, 1000, 5_000, 20_000]
    given = [random_arrays(program, size) for size in sizes]
    expected = [kernel(*arrays, threads=1).tobytes() for arrays in given]
    wrong = []

    def work(k):
        for _ in range(200):
            if kernel(*given[k], threads=3).tobytes() != expected[k]:
                wrong.append(k)

    at_once(work, 4)
    assert not wrong


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_has_helpers_of_its_own_while_the_parents_wait():
    assert child("""
import warnings
warnings.simplefilter("ignore")
arrays, codes = random_arrays(program, 5_000), []
expected = kernel(*arrays, threads=2).tobytes()
for _ in range(20):
    kernel(*arrays, threads=2)  # its helper waits in native code
    pid = os.fork()
    if not pid:
        signal.alarm(300)
        wrong = any(kernel(*arrays, threads=2).tobytes() != expected for _ in range(50))
        helped = any(thread.name == "nlink" and thread.is_alive()
                     for thread in threading.enumerate())
        os._exit(wrong or not helped)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(set(codes))
""") == "{0}\n"


@pytest.mark.parametrize("way", ["allocated", "out", "broadcast", "every second", "reversed"])
def test_large_batches_are_shared_however_they_are_given(monkeypatch, way):
    code = kernel(nlink.load("planar3").request("inverse_dynamics"))
    arrays = random_arrays(nlink.load("planar3").request("inverse_dynamics").program(), 400)
    given = {"broadcast": [*arrays[:-1], arrays[-1][0]],
             "every second": [x[::2] for x in arrays],
             "reversed": [x[::-1] for x in arrays]}.get(way, arrays)
    expected = code(*given, threads=1)
    shared, share = [], Kernel._share
    monkeypatch.setattr(Kernel, "_share",
                        lambda self, *rest: shared.append(1) or share(self, *rest))
    monkeypatch.setattr(code, "_limits", np.array([0, 10]))
    monkeypatch.setattr(code, "_measured", True)
    out = np.empty_like(expected) if way == "out" else None
    assert np.array_equal(code._general(*given, out), expected)
    assert shared


@pytest.mark.parametrize(("one", "several", "wanted"), [
    (1.0, 0.5, True), (1.0, 0.95, False), (1.0, 3.0, False)])
def test_the_faster_way_is_kept_and_the_slower_one_tried_again(one, several, wanted):
    trials, answers = Trials(), []
    for _ in range(10 * Trials.AGAIN):
        answers.append(trials.several())
        trials.learn(several=answers[-1], seconds=several if answers[-1] else one)
    assert answers[:2] == [True, False]
    assert answers.count(not wanted) == 10 + Trials.FIRST


def test_a_core_that_is_free_again_is_used_again():
    trials, busy = Trials(), True
    for call in range(40 * Trials.AGAIN):
        busy = call < Trials.AGAIN
        answer = trials.several()
        trials.learn(several=answer, seconds=3.0 if answer and busy else 0.5 if answer else 1.0)
    assert trials.several()


def test_the_number_of_threads_is_set_by_call_or_environment(monkeypatch):
    monkeypatch.setattr(threads, "_most_threads", None)
    monkeypatch.delenv("NLINK_THREADS", raising=False)
    assert nlink.threads() == threads.cores()
    monkeypatch.setenv("NLINK_THREADS", "3")
    assert nlink.threads() == 3
    assert nlink.threads(5) == nlink.threads() == 5
    for wrong in (0, -1, 1.5, "2", True, float("nan")):
        with pytest.raises(ValueError, match=r"threads: .*expected a whole number"):
            nlink.threads(wrong)
    monkeypatch.setattr(threads, "_most_threads", None)
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("NLINK_THREADS", wrong)
        with pytest.raises(ValueError, match=r"NLINK_THREADS: .*expected a whole number"):
            nlink.threads()


def test_with_one_thread_nobody_is_woken(monkeypatch):
    program = random_program(11, size=40, shapes=((6,),), outs=((4,),))
    kernel, arrays = Kernel(translate.compile_program(program)), random_arrays(program, 100_000)
    expected = kernel(*arrays)
    kernel._trials.clear()
    kernel._limits[1], kernel._measured = 1000, True
    monkeypatch.setattr(threads, "_most_threads", 1)
    monkeypatch.setattr(team.team, "lead", lambda *_: pytest.fail("woken"))
    assert kernel(*arrays).tobytes() == expected.tobytes()
    monkeypatch.setattr(threads, "_most_threads", 2)
    with pytest.raises(pytest.fail.Exception, match="woken"):
        kernel(*arrays)


@pytest.mark.slow
def test_batches_without_the_gil_have_scratch_memory_of_their_own():
    program = random_rolled_program(3, 50)
    kernel = Kernel(translate.compile_program(program))
    kernel._limits[0] = 0
    batches = [random_arrays(program, 200, seed) for seed in range(4)]
    expected = [np.concatenate([x.ravel() for x in kernel(*arrays, threads=1)])
                for arrays in batches]
    wrong = []

    def work(k):
        for _ in range(30):
            found = np.concatenate([x.ravel() for x in kernel.plain(*batches[k], None)])
            if found.tobytes() != expected[k].tobytes():
                wrong.append(k)

    at_once(work, 4)
    assert not wrong


@pytest.mark.slow
def test_daemons_that_compute_at_exit():
    assert child("""
arrays = random_arrays(program, 20_000)
kernel(*arrays)
kernel._limits[:] = 0, 2**62
def compute():
    while True:
        kernel(*arrays)
for _ in range(3):
    threading.Thread(target=compute, daemon=True).start()
time.sleep(0.05)
print("end")
""") == "end\n"


@pytest.mark.slow
def test_the_main_thread_of_a_subinterpreter_computes():
    """No signal interrupts it, so none is held back."""
    interpreters = pytest.importorskip("_xxsubinterpreters" if sys.version_info < (3, 13)
                                       else "_interpreters")
    code = """
import warnings
warnings.simplefilter("ignore")
import nlink
robot = nlink.load("double_pendulum")
assert robot.inverse_dynamics([0.1, 0.2], [0, 0], [0, 0]).shape == (2,)
assert nlink.simulate(robot, [1.0, 0.0], t=0.1).ok
print("computed", flush=True)
"""
    made = "'legacy'" if sys.version_info >= (3, 13) else "isolated=False"
    text = f"import {interpreters.__name__} as i; i.run_string(i.create({made}), {code!r})"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                           timeout=LONGEST, check=False)
    assert found.stdout == "computed\n", found.stderr

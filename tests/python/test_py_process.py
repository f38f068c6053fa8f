# SPDX-License-Identifier: Apache-2.0
"""The interpreter around a loader: Ctrl-C, fork, exit in the middle. Each in a process of its own."""
import signal
import subprocess
import sys

import pytest

# `gate` holds up the samples of `never` until it is set, and `entered` tells that one is held up.
HEAD = """
import os, signal, sys, threading, time
import millrace as mr
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
gate, entered = threading.Event(), threading.Event()
def held(value):
    entered.set()
    gate.wait()
    return value
def sluggish(value):
    time.sleep(0.01)
    return value
never = mr.dataset(list(range(160))).map(held, field="data", fields="int64").batch(8)
steady = mr.dataset(list(range(800))).map(sluggish, field="data", fields="int64").batch(8)
numbers = mr.synthetic(samples=1000, shape=[4]).batch(8)
"""


def run(code, timeout=300):
    return subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True,
                          timeout=timeout, check=False)


def test_ctrl_c_while_waiting():
    """The signal comes while next() waits for a batch that does not come: next returns all the same."""
    code = """
loader = never.loader(threads=1)
def interrupt():
    entered.wait()
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=interrupt).start()
    next(loader)
except KeyboardInterrupt:
    os.write(1, b"interrupted")
    os._exit(0)
"""
    out = run(code)
    assert out.stdout == "interrupted" and out.returncode == 0, out.stderr


def test_the_gil_is_free_while_waiting():
    code = """
loader = never.loader(threads=1)
def tick():
    for _ in range(20):
        time.sleep(0.005)
    os.write(1, b"ticked")
    os._exit(0)
threading.Thread(target=tick).start()
next(loader)
"""
    assert run(code).stdout == "ticked"


def test_a_loader_goes_on_after_ctrl_c():
    code = """
loader = never.shuffle(False).loader(threads=1)
def interrupt():
    entered.wait()
    time.sleep(0.03)
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=interrupt).start()
    next(loader)
    print("not interrupted")
except KeyboardInterrupt:
    gate.set()
seen = [next(loader)["data"].tolist() for _ in range(20)]
print(seen == [list(range(8 * i, 8 * i + 8)) for i in range(20)])
"""
    out = run(code)
    assert out.stdout == "True\n", out.stderr


def test_forks_while_threads_enter_python():
    """A child that copies a lock of the interpreter as taken would never begin."""
    out = run("""
import os
import millrace as mr
for _ in range(40):
    with mr.synthetic(samples=64, shape=[4]).map(lambda sample: sample).batch(4).loader(threads=16) as loader:
        for _ in range(3):
            if (pid := os.fork()) == 0:
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
print("all began")
""")
    assert "all began" in out.stdout, out.stderr


def test_fork_gives_an_error_in_the_child():
    code = """
loader = numbers.loader()
next(loader)
if os.fork() == 0:
    try:
        next(loader)
    except RuntimeError as error:
        print(error, flush=True)
    sys.exit(0)
os.wait()
print(len(list(loader)))
"""
    out = run(code)
    assert "parent process" in out.stdout and "after fork" in out.stdout, out.stderr
    assert out.stdout.splitlines()[-1] == "124" and out.returncode == 0, out.stderr


def test_fork_beside_python_functions():
    """The child forgets threads and processes of the parent, and ends none of them."""
    code = """
import gc, multiprocessing, numpy
def in_child(loader):
    try:
        next(loader)
    except RuntimeError as error:
        assert "parent process" in str(error)
if __name__ == "__main__":
    data = mr.dataset(numpy.arange(400)).batch(8).shuffle(False)
    for processes in (0, 2):
        loader = data.map(numpy.negative, field="data", processes=processes).loader()
        seen = next(loader)["data"].tolist()
        for way in range(2):
            if (pid := os.fork()) == 0:
                in_child(loader)
                if way:
                    loader.close()
                    del loader
                    gc.collect()
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        child = multiprocessing.get_context("fork").Process(target=in_child, args=(loader,))
        child.start()
        child.join()
        assert child.exitcode == 0
        for batch in loader:
            seen += batch["data"].tolist()
        print(seen == [-i for i in range(400)])
"""
    out = run(code)
    assert out.stdout == "True\nTrue\n" and "Traceback" not in out.stderr, out.stderr


def test_a_signals_handler_may_save_and_close():
    code = """
def handler(*_):
    print(loader.state_dict()["position"])
    if close:
        threading.Timer(0.2, gate.set).start()  # closing waits for the function
        loader.close()
    gate.set()
signal.signal(signal.SIGALRM, handler)
def alarm():
    entered.wait()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGALRM)
for close in (False, True):
    gate.clear()
    entered.clear()
    loader = never.loader(threads=1)
    try:
        threading.Thread(target=alarm).start()
        print(next(loader).size)
    except ValueError as error:
        print(error)
    loader.close()
"""
    out = run(code)
    assert out.stdout == "0\n8\n0\nthe loader is closed\n", out.stderr


def test_the_collector_may_end_a_loader_in_its_own_thread():
    code = """
import gc
main, go, done = threading.get_ident(), threading.Event(), threading.Event()
def collect(value):
    time.sleep(0.002)
    if go.is_set() and threading.get_ident() != main:
        gc.collect()
        done.set()
    return value
gc.disable()
before = len(os.listdir("/proc/self/task"))
loader = mr.dataset(list(range(900))).map(collect, field="data", fields="int64").batch(2).loader(
    epochs=1000, threads=2, batches_ahead=1000)
next(loader)
cycle = [loader]
cycle.append(cycle)
del loader, cycle
go.set()
assert done.wait(120)
end = time.monotonic() + 120
while len(os.listdir("/proc/self/task")) > before and time.monotonic() < end:
    time.sleep(0.01)
print(len(os.listdir("/proc/self/task")) == before)
"""
    out = run(code)
    assert out.stdout == "True\n" and out.returncode == 0, out.stderr


def test_exit_in_the_middle():
    for code in ("loader = numbers.epochs(1000).loader()\nnext(loader)\n",
                 "loader = steady.loader(threads=2)\nnext(loader)\n",
                 "loader = numbers.loader()\nbatch = next(loader)\ndata = batch['data']\n"
                 "del loader, batch\n",
                 "loader = steady.loader(threads=2)\nnext(loader)\nraise SystemExit(0)\n",
                 "import gc\nloader = steady.loader(threads=2)\nloader.me = loader\nnext(loader)\n"):
        out = run(code)
        assert out.returncode == 0 and out.stderr == "", out.stderr


def test_exit_by_signal():
    code = HEAD + "loader = steady.loader(threads=2)\nnext(loader)\nprint(1, flush=True)\n" \
        "time.sleep(3000)\n"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=300)
        assert "KeyboardInterrupt" in stderr and process.returncode != 0


def test_warnings_go_to_logging(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "beside.png").write_bytes(b"x")
    (tmp_path / "a" / "x.png").write_bytes(b"x")
    code = f"""
import logging
logging.basicConfig(format="%(name)s %(message)s")
mr.files({str(tmp_path)!r}).loader()
"""
    out = run(code)
    assert out.stderr.startswith("millrace ") and "1 files beside" in out.stderr, out.stderr


def test_another_interpreter_of_the_process_is_refused():
    """Threads of a loader would enter the first one."""
    interpreters = pytest.importorskip("_xxsubinterpreters")
    code = f"""
import {interpreters.__name__} as interpreters
try:
    interpreters.run_string(interpreters.create(), "import millrace._core")
except interpreters.RunFailedError as error:
    print("main interpreter only" in str(error), end="", flush=True)
os._exit(0)
"""
    out = run(code, 60)
    assert out.stdout == "True", out.stdout + out.stderr

// python.cpp — the Python module: its results equal the program's output, errors have the program's
// text, an interrupt leaves nothing behind. Without the module the tests say so.
#include <catch2/catch.hpp>

#include "tests/golden/program.h"

using golden::run;

namespace {

golden::Finished python(const std::string& folder, const std::string& script) {
  golden::write(folder + "/script.py", script);
  return run(golden::python + "script.py", folder);
}

void holds(const std::string& folder, const std::string& script) {
  if (!golden::has_python(folder)) return;
  const golden::Finished made = python(folder, script);
  INFO(made.out << made.err);
  CHECK(made.code == 0);
}

// Kills the interpreter this often, at drawn times; nothing of it stays.
void kill_python(const std::string& name, int kills) {
  holds(golden::scratch(name), "kills = " + std::to_string(kills) + R"py(
import os, random, signal, subprocess, sys, time

def processes(session):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, _, _, of = file.read().rpartition(") ")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state != "Z":
            found.append(int(name))
    return found

questions = [
    "list(rehearse.sweep('paper-454', jobs=2))",
    "rehearse.plan('llama-3.1-8b', 'dgx-h100', gpus=64, batch=128, sequence=8192)",
    "rehearse.run('llama-2-7b-64', global_batch=65536, method='reference')",
    "rehearse.validate('calibration/measured/paper_grid.csv')",
]
before = sorted(os.listdir())
os.mkdir("temporary")
draw = random.Random(5)
for kill in range(kills):
    question = questions[kill % len(questions)]
    one = subprocess.Popen([sys.executable, "-c", "import rehearse; print(1, flush=True); " +
                            question], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           start_new_session=True, env=dict(os.environ, TMPDIR="temporary"))
    one.stdout.readline()
    time.sleep(draw.uniform(0, 1))
    one.kill()
    one.wait()
    for _ in range(100):
        left = processes(one.pid)
        if not left:
            break
        time.sleep(0.05)
    assert not left, (question, left)
assert os.listdir("temporary") == []
os.rmdir("temporary")
assert sorted(os.listdir()) == before, os.listdir()
)py");
}

}  // namespace

TEST_CASE("golden: Python gives what the program prints") {
  holds(golden::scratch("python"), R"(
import json, subprocess, rehearse

def program(*words):
    done = subprocess.run(["./rehearse", *words, "--json", "-q"], capture_output=True)
    return json.loads(done.stdout)["result"]

def same(one, other):
    assert json.dumps(one) == json.dumps(other), (one, other)

assert f'"version": "{rehearse.__version__}"' in subprocess.run(
    ["./rehearse", "--version", "--json"], capture_output=True, text=True).stdout
same(rehearse.run("llama-2-7b-64", tp=4), program("run", "llama-2-7b-64", "tp=4"))
same(rehearse.run("llama-2-7b-64", micro_batch=8), program("run", "llama-2-7b-64", "micro_batch=8"))
same(rehearse.run("llama-2-7b-64", steps=3, fabric={"oversubscription": 4}),
     program("run", "llama-2-7b-64", "--steps=3", "fabric.oversubscription=4"))
same(rehearse.memory_estimate("llama-2-7b-64"), program("memory", "estimate", "llama-2-7b-64"))
words = ["llama-3.1-8b", "dgx-h100", "--gpus=8", "--batch=16", "--sequence=4096", "--best=2"]
settings = ["zero=1", "schedule=1f1b", "tp=1,2"]
found = rehearse.plan("llama-3.1-8b", "dgx-h100", gpus=8, batch=16, sequence=4096, best=2, zero=1,
                      schedule="1f1b", tp=[1, 2])
same(found, program("plan", *words, *settings))
from_plan = ["zero=1", "schedule=1f1b", "tp=1", "cp=1", "recompute=none"]
same(rehearse.plan("llama-2-7b-64", **dict(word.split("=") for word in from_plan)),
     program("plan", "llama-2-7b-64", *from_plan))
# A file that is not as it was is read anew, however fast.
subprocess.run(["./rehearse", "init", "cluster"], capture_output=True)
with open("cluster.textproto", "rb") as file:
    shared = file.read()
for old, new in [(b"", b""), (b"sms: 132", b"sms: 100"), (b"sms: 100", b"sms: 132")]:
    shared = shared.replace(old, new) if old else shared
    assert new in shared
    with open("own.textproto", "wb") as file:
        file.write(shared)
    own = ["model=llama-3.1-8b", "cluster=own.textproto", "gpus=16", "global_batch=16", "tp=2",
           "sequence=4096"]
    same(rehearse.run(**dict(word.split("=") for word in own)), program("run", *own))
# A question after others is answered as a first one.
same(rehearse.run("llama-2-7b-64", tp=4), program("run", "llama-2-7b-64", "tp=4"))
)");
}

TEST_CASE("golden: a sweep from Python yields the records of the program's, in the grid's order") {
  const std::string folder = golden::grid_scratch("python-sweep");
  REQUIRE(run("./rehearse sweep grid.textproto -o out -q", folder).code == 0);
  holds(folder, R"(
import json, rehearse

written = [json.loads(line) for line in open("out/results.jsonl")]
for record in written:
    del record["checksum"]
for jobs in (1, 2, 3):
    assert list(rehearse.sweep("grid.textproto", jobs=jobs)) == written, jobs
# Who stops early stops the sweep, and a second one may go on beside.
one, other = rehearse.sweep("grid.textproto"), rehearse.sweep("grid.textproto", jobs=1)
assert next(one) == next(other) == written[0]
assert next(other) == written[1]
# Settings alone: what is a list varies.
grid = rehearse.sweep(model="llama-2-7b", cluster="abci-a", global_batch=32, sequence=2048,
                      gpus=[8, 16], tp=[1, 2, 3, 4], pp=[1, 2, 4], mbs=[1, 2, 4])
got = list(grid)
assert len(got) == len(written)
for one, other in zip(got, written):
    assert one["step_time_s"] == other["step_time_s"] and one["outcome"] == other["outcome"]
try:
    rehearse.sweep("no-such-grid")
    assert False
except rehearse.Error as error:
    assert error.exit_code == 66, error.exit_code
)");
}

TEST_CASE("golden: Python takes several values of any kind, and a bound number of processes") {
  holds(golden::scratch("python-values"), R"(
import pathlib, rehearse

plan = dict(model="llama-2-7b", cluster=b"dgx-h100", gpus=16, global_batch=32, sequence=4096.0)
points = [list(rehearse.sweep(tp=values, cp=None, **plan))
          for values in ([1, 2], (1, 2), range(1, 3), {2, 1}, (t for t in (1, 2)))]
assert len(points[0]) == 2 and all(one == points[0] for one in points), points
variants = rehearse.whatif(vary={"tp": range(1, 3)}, **plan)
assert [one["name"] for one in variants][1:] == ["tp=1", "tp=2"], variants
assert rehearse.run(pathlib.Path("llama-2-7b-64"), tp=None) == rehearse.run("llama-2-7b-64")
for jobs in (0, -3, 1025, 10**12):
    try:
        next(rehearse.sweep(tp=[1, 2], jobs=jobs, **plan))
    except rehearse.Error as error:
        assert error.exit_code == 64 and "from 1 to 1024" in str(error), error
    else:
        assert False, jobs
)");
}

TEST_CASE("golden: Python's errors cross processes, and a fork during a question is told") {
  holds(golden::scratch("python-processes"), R"(
import multiprocessing, os, pickle, threading, rehearse

def ask(tp):
    return rehearse.run("llama-2-7b-64", tp=tp)["step_time_ps"]

try:
    ask(3)
except rehearse.Error as error:
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.exit_code, again.problems) == (
        str(error), error.exit_code, error.problems)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(ask, [2, 4]) == [ask(2), ask(4)]
    try:
        pool.map(ask, [2, 3])
    except rehearse.Error as error:
        assert error.exit_code == 65
    else:
        assert False

# A thread asks; a process forked meanwhile is told, and does not wait for ever.
begun, enough = threading.Event(), threading.Event()
def many():
    while not enough.is_set():
        begun.set()
        ask(2)
thread = threading.Thread(target=many)
thread.start()
begun.wait()
told = 0
while told == 0:
    child = os.fork()
    if child == 0:
        try:
            ask(2)
            os._exit(0)
        except RuntimeError as error:
            os._exit(7 if "when this process was forked" in str(error) else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 7), status
    told += status == 7
enough.set()
thread.join()
assert ask(2) > 0
)");
}

TEST_CASE("golden: Python's errors have the program's text") {
  holds(golden::scratch("python-errors"), R"(
import subprocess, rehearse

def refused(**settings):
    try:
        rehearse.run("llama-2-7b-64", **settings)
    except rehearse.Error as error:
        return error
    assert False

def same(error, *words):
    done = subprocess.run(["./rehearse", "run", "llama-2-7b-64", *words, "-q"],
                          capture_output=True)
    assert error.exit_code == done.returncode
    assert str(error) == done.stderr.decode().rstrip("\n"), (str(error), done.stderr)

same(refused(tp=3), "tp=3")
same(refused(tpp=3, schedule="1f1bb"), "tpp=3", "schedule=1f1bb")
assert len(refused(tpp=3).problems) == 1  # none of the questions before
same(refused(method="exact"), "--method=exact")
)");
}

TEST_CASE("golden: an interrupt ends a question of Python's, and the next one is answered") {
  holds(golden::scratch("python-interrupt"), R"(
import os, signal, threading, time, rehearse

def ends_early(question):
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.time()
    try:
        question()
        assert False
    except KeyboardInterrupt:
        assert time.time() - began < 20

ends_early(lambda: rehearse.plan("llama-3.1-405b", "dgx-h100", gpus=16384, batch=2048,
                                 sequence=8192))
for jobs in (1, 2):
    ends_early(lambda: [list(rehearse.sweep("paper-454", jobs=jobs)) for _ in range(100)])
# One replay that takes minutes.
ends_early(lambda: rehearse.run("llama-2-7b-64", global_batch=65536, method="reference", steps=100))
assert rehearse.run("llama-2-7b-64")["fits"]
# A handler that asks while a question is answered is refused; it does not wait for itself.
before = signal.signal(signal.SIGINT, lambda *_: rehearse.run("llama-2-7b-64"))
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    rehearse.run("llama-2-7b-64", global_batch=65536, method="reference", steps=100)
    assert False
except RuntimeError as error:
    assert "at work" in str(error), error
signal.signal(signal.SIGINT, before)
assert rehearse.run("llama-2-7b-64")["fits"]
# Other threads go on meanwhile.
count = 0
def work():
    global count
    while not done:
        count += 1
        time.sleep(0.001)
done = False
thread = threading.Thread(target=work)
thread.start()
rehearse.run("llama-3.1-405b-16384")
done = True
thread.join()
assert count > 10, count
)");
}

TEST_CASE("golden: a killed Python leaves no process and no file, a sample of kills") {
  kill_python("python-kills", 8);
}

TEST_CASE("golden: a Python that is killed 100 times leaves no process and no file",
          "[.campaign]") {
  kill_python("python-kills-100", 100);
}

TEST_CASE("golden: a worker of Python's that is killed from outside is an exception") {
  holds(golden::scratch("python-worker-killed"), R"(
import os, signal, threading, time, rehearse

def kill_a_worker():
    for _ in range(2000):
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children") as file:
                for child in file.read().split():
                    os.kill(int(child), signal.SIGKILL)
                    return
        time.sleep(0.01)

def killed(question):
    thread = threading.Thread(target=kill_a_worker)
    thread.start()
    try:
        return question()
    except rehearse.Error as error:
        assert error.exit_code == 75, error.exit_code
        assert "killed from outside" in str(error), error
        return "killed"
    finally:
        thread.join()

assert killed(lambda: rehearse.validate("calibration/measured/paper_grid.csv")) == "killed"
# The other points of a sweep are answered.
grid = dict(model="llama-2-7b", cluster="abci-a", global_batch=512, sequence=2048, gpus=[8, 16],
            tp=[1, 2, 4], pp=[1, 2, 4], mbs=[1, 2, 4])
records = killed(lambda: list(rehearse.sweep(**grid, jobs=2)))
assert records == "killed" or sum("killed" in str(one) for one in records) <= 1, records
assert rehearse.run("llama-2-7b-64")["fits"]
)");
}

TEST_CASE("golden: timelines are NumPy arrays that agree with the run") {
  holds(golden::scratch("python-arrays"), R"(
import numpy, rehearse

found = rehearse.run("llama-2-7b-64", global_batch=64, timelines=True)
passes = found["timelines"]["passes"]
assert isinstance(passes["begin_s"], numpy.ndarray)
assert (passes["end_s"] >= passes["begin_s"]).all()
assert set(passes["pass"]) >= {"forward", "backward"}
length = passes["end_s"].max() - passes["begin_s"].min()
assert length <= found["step_time_ps"] * 1e-12 * 1.001
# Passes of a rank follow each other: together they take no longer than the step.
for one in set(passes["rank_class"]):
    own = passes["rank_class"] == one
    assert (passes["end_s"] - passes["begin_s"])[own].sum() <= length * (1 + 1e-9)
assert len(found["timelines"]["memory"]) == len(set(passes["rank_class"]))
for one in found["timelines"]["memory"]:
    held = sum(one["by_category"].values())
    assert (held == one["allocated_bytes"]).all()
    assert held.shape == one["time_s"].shape
    assert (one["allocated_bytes"] <= one["reserved_bytes"]).all()
plain = rehearse.run("llama-2-7b-64", global_batch=64)
del found["timelines"]
for one in (found, plain):
    del one["operations_replayed"]  # with timelines: all of them
assert found == plain
)");
}

TEST_CASE(
    "golden: Python explains, varies, validates and simulates campaigns as the program does") {
  holds(golden::scratch("python-commands"), R"(
import json, subprocess, rehearse

def same(one, *words):
    done = subprocess.run(["./rehearse", *words, "--json", "-q"], capture_output=True)
    other = json.loads(done.stdout)["result"]
    assert json.dumps(one) == json.dumps(other), (one, other)

same(rehearse.explain("llama-2-7b-64", micro_batch=2), "explain", "llama-2-7b-64", "micro_batch=2")
same(rehearse.whatif("llama-2-7b-64", vary={"tp": [1, 2], "fabric": {"oversubscription": [1, 4]}}),
     "whatif", "llama-2-7b-64", "--vary=tp=1,2", "--vary=fabric.oversubscription=1,4")
same(rehearse.validate("calibration/measured/nccl.csv", where={"nodes": 1}),
     "validate", "calibration/measured/nccl.csv", "--where=nodes=1")
same(rehearse.campaign(step_time=10, gpus=64, mtbf="3h", checkpoint_write="60s", seeds=3),
     "campaign", "--step-time=10", "--gpus=64", "--mtbf=3h", "--checkpoint-write=60s", "--seeds=3")
try:
    import pandas
except ImportError:
    pandas = None
if pandas:
    variants = rehearse.to_dataframe(rehearse.whatif("llama-2-7b-64", vary={"tp": [1, 2]}))
    assert len(variants) == 3, variants
)");
}

TEST_CASE("golden: the Python tutorial runs from its first cell to its last") {
  holds(golden::scratch("python-tutorial"),
        "exec(open(\"" REHEARSE_SOURCE_DIR "/sim/python/tutorial.py\").read(), {})\n");
}

TEST_CASE("golden: the type stubs list the settings of the table of fields") {
  const std::string folder = golden::scratch("python-stubs");
  const golden::Finished made =
      run("./rehearse list fields --json | python3 sim/python/stubs.py", folder);
  INFO("run the command in the head of sim/python/stubs.py");
  CHECK(made.out == golden::text_of(folder + "/sim/python/package/_settings.pyi"));
}

TEST_CASE("golden: a wheel works in a clean environment, without the network") {
  const std::string folder = golden::scratch("python-wheel");
  if (!golden::has_python(folder)) return;
  if (run("python3 -c 'import setuptools, wheel, venv, ensurepip' && python3 -m pip --version",
          folder)
          .code != 0) {
    WARN("not tested here: a wheel needs python3-pip, python3-venv, python3-wheel");
    return;
  }
  // pip builds inside the folder of the sources, so it gets a copy.
  const std::string source = REHEARSE_SOURCE_DIR;
  const golden::Finished made = run(
      "mkdir -p tree/sim && cp -r " + source + "/sim/python " + source +
          "/sim/schemas tree/sim && cp " + source +
          "/CMakeLists.txt tree && for data in models "
          "topologies workloads calibration; do ln -s " +
          source +
          "/$data tree; done\n"
          "REHEARSE_BUILD=" REHEARSE_BINARY_DIR
          " python3 -m pip wheel tree/sim/python --no-build-isolation --no-deps --no-index -q -w "
          "wheels && python3 -m venv clean && clean/bin/pip install --no-index -q wheels/*.whl\n"
          "cd clean && env -u REHEARSE_ROOT -u PYTHONPATH bin/python -c \"import rehearse; "
          "print(rehearse.run('llama-2-7b-64')['fits'], len(rehearse.__path__))\"",
      folder);
  INFO(made.err);
  CHECK(made.code == 0);
  CHECK(made.out == "True 1\n");
}

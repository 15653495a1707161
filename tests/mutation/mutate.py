#!/usr/bin/env python3
"""How many small faults in sim/ do the tests notice?

    tests/mutation/mutate.py --results FILE [--count 200] [--seed 1] [--jobs 2] [--longest S]

Draws mutants (mutants.py) of this checkout and builds all of them into one program, each behind a
switch (switch.h). The tests run once with all switches off and note which mutants each reaches;
then each mutant is turned on and the tests that reach it run, those of its own room first and the
fastest of them, until one fails. What cannot stand behind a switch (a constant that the compiler
wants, say) is built by itself. FILE gets a line of JSON for each mutant; one that is there already
is not run again, so a run that was cut off goes on. What does not compile, or compiles to the same
program, is no mutant: another counts. With --again RESULTS, those that nothing noticed there are
tried once more, after tests were written. --longest leaves out tests that take more CPU seconds: a
mutant that lives is run by all the others, and the score is then a lower bound.

Wants a checkout of its own that nobody edits: its sources are changed and, at the end, restored.
A build, a run of all tests, and then some ten mutants a minute on two cores; --jobs says how many
tests run at once (those built by themselves are tried one by one).
"""

import argparse
import hashlib
import json
import math
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import mutants

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Transcripts of READMEs notice every change of a figure: here they count for nothing. Neither do
# tests that build, or that look at the sources.
LEFT_OUT = re.compile(r"README|^golden: (an )?install|^golden: the launcher|^tidy: |formats\.md")
MEMORY = 6 << 30  # bytes that a test may hold: a mutant may ask for all there is


@dataclass
class Test:
    name: str
    command: list
    folder: str
    environment: dict
    limit: float = 600.0  # CPU seconds: thrice what it takes with all switches off, and 10
    seconds: float = 0.0  # CPU seconds that its last run took
    reached: set = field(default_factory=set)

    def passes(self, **more):
        """CPU time, not wall time, is bounded: the machine may do other things too."""
        bounded = ["env", "--default-signal=HUP",  # which nohup ignores, and tests send
                   "prlimit", f"--cpu={math.ceil(self.limit)}", f"--data={MEMORY}", "--core=0"]
        with tempfile.TemporaryDirectory() as temporary:
            environment = os.environ | self.environment | {"TMPDIR": temporary} | more
            test = subprocess.Popen(bounded + self.command, cwd=self.folder, env=environment,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            watch = threading.Timer(600, test.kill)
            watch.start()
            _, status, used = os.wait4(test.pid, 0)
            watch.cancel()
            test.returncode = os.waitstatus_to_exitcode(status)
            self.seconds = used.ru_utime + used.ru_stime
            return test.returncode == 0


def compiled_as(path, text):
    """With switches, and like a header of the system: without warnings, which are errors here. Only
    such files differ from a build without mutants: a compiler's cache has all others."""
    return f'#include "{HERE / "switch.h"}"\n# 1 "{path}" 3\n{text}'


class Build:
    """A build folder whose sources carry mutants behind switches, and one written plainly."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.sources = {}  # path -> unchanged text
        self.switches = defaultdict(dict)  # path -> {number: mutant}

    def configure(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        switch = self.folder / "switch.o"
        subprocess.run(["c++", "-std=c++20", "-O2", "-fPIC", "-c", HERE / "switch.cpp", "-o",
                        switch], check=True)
        subprocess.run(["ar", "rcs", self.folder / "libswitch.a", switch], check=True)
        subprocess.run(
            ["cmake", "--preset", "ci", "-B", self.folder, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
             f"-DCMAKE_CXX_STANDARD_LIBRARIES={self.folder / 'libswitch.a'}"],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    def text(self, path):
        return self.sources.setdefault(path, (ROOT / path).read_text())

    def write(self, path, plain=None):
        """The file with its switches, but for those that touch the one that is written plainly."""
        text = self.text(path)
        edits = [plain.edit()] if plain else []
        for number, mutant in self.switches[path].items():
            edit = mutant.switched(text, number)
            if all(edit[1] <= other[0] or other[1] <= edit[0] for other in edits):
                edits.append(edit)
        for begin, end, new in sorted(edits, reverse=True):
            text = text[:begin] + new + text[end:]
        if edits:
            text = compiled_as(path, text)
        if text != (ROOT / path).read_text():
            (ROOT / path).write_text(text)

    def add(self, number, mutant):
        """Puts a mutant behind its switch; False where it cannot stand there."""
        text = self.text(mutant.path)
        edit = mutant.switched(text, number)
        taken = [m.switched(text, n) for n, m in self.switches[mutant.path].items()]
        if edit is None or any(edit[0] < end and begin < edit[1] for begin, end, _ in taken):
            return False
        self.switches[mutant.path][number] = mutant
        return True

    def restore(self):
        for path, text in self.sources.items():
            (ROOT / path).write_text(text)

    def ninja(self):
        """What the compiler says; empty where it builds."""
        done = subprocess.run(["ninja", "-k", "0"], cwd=self.folder, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return "" if done.returncode == 0 else done.stdout

    def drop_failed(self, said):
        """Takes away the switches at whose lines the compiler failed, or else of the whole file;
        their numbers."""
        dropped = set()
        for path, switches in self.switches.items():
            lines = {int(n) for n in re.findall(re.escape(path) + r":(\d+):\d+: error", said)}
            if path not in said or not (lines or f"{path}:" in said):
                continue
            text = self.text(path)
            spans = {n: m.switched(text, n) for n, m in switches.items()}
            at = {n for n, (begin, end, _) in spans.items() for line in lines
                  if text.count("\n", 0, begin) < line <= text.count("\n", 0, end) + 1}
            for number in at or (set(switches) if lines else set()):
                del switches[number]
                dropped.add(number)
            self.write(path)
        return dropped

    def commands(self):
        """path -> how it is compiled, by itself or in a batch. What needs a library that is not
        here has no command."""
        found = {}
        for entry in json.loads((self.folder / "compile_commands.json").read_text()):
            unit = Path(entry["file"])
            if "batches" in unit.parts:
                found |= dict.fromkeys(re.findall(r'#include "(.*)"', unit.read_text()), entry)
            elif unit.is_relative_to(ROOT):
                found[unit.relative_to(ROOT).as_posix()] = entry
        return found

    def object_of(self, path, text):
        """What the source compiles to with this text, by itself, byte for byte; None where it does
        not."""
        entry = self.commands()[path]
        command = shlex.split(entry["command"])
        with tempfile.TemporaryDirectory() as temporary:
            unit, out = Path(temporary) / "unit.cpp", Path(temporary) / "out.o"
            unit.write_text(compiled_as(path, text))
            command[command.index("-c") + 1] = str(unit)
            command[command.index("-o") + 1] = str(out)
            command.append("-frandom-seed=0")  # of which the compiler makes names
            done = subprocess.run(command, cwd=entry["directory"], check=False,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return hashlib.sha256(out.read_bytes()).hexdigest() if done.returncode == 0 else None

    def changes_nothing(self, mutant):
        text = self.text(mutant.path)
        begin, end, new = mutant.edit()
        before = self.object_of(mutant.path, text)
        return before is not None and before == self.object_of(
            mutant.path, text[:begin] + new + text[end:])


def all_tests(folder: Path):
    said = subprocess.run(["ctest", "--show-only=json-v1"], cwd=folder, check=True,
                          stdout=subprocess.PIPE).stdout
    for test in json.loads(said)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        if not LEFT_OUT.search(test["name"]):
            yield Test(test["name"], test["command"],
                       properties.get("WORKING_DIRECTORY", str(folder)),
                       dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", [])))


def what_is_reached(tests, drawn, folder: Path, jobs: int):
    """Runs every test with all switches off; those that pass, fastest first. Kept in the folder for
    a run that goes on with the same programs and mutants."""
    count = len(drawn)
    programs = [p for p in (folder / "tests").glob("test_*") if p.is_file() and not p.suffix]
    digest = hashlib.sha256(repr(sorted(drawn.items())).encode())
    for program in [folder / "rehearse", *sorted(programs)]:
        digest.update(program.read_bytes())
    kept = folder / f"reached-{digest.hexdigest()[:16]}.json"
    if kept.exists():
        known = json.loads(kept.read_text())
        passing = [(known[t.name]["s"], t) for t in tests if t.name in known]
        for seconds, test in passing:
            test.seconds, test.limit = seconds, 3 * seconds + 10
            test.reached = set(known[test.name]["reached"])
        return [test for _, test in sorted(passing, key=lambda p: p[0])]

    def run(test):
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(count + 1))
            file.flush()
            if not test.passes(REHEARSE_REACHED=file.name):
                print(f"left out, for it fails with no mutant on: {test.name}", flush=True)
                return None
            file.seek(0)
            test.reached = {n for n, at in enumerate(file.read()) if n and at}
            test.limit = 3 * test.seconds + 10
            return test.seconds, test

    with ThreadPoolExecutor(jobs) as pool:
        passing = [found for found in pool.map(run, tests) if found]
    kept.write_text(json.dumps(
        {t.name: {"s": s, "reached": sorted(t.reached)} for s, t in passing}))
    return [test for _, test in sorted(passing, key=lambda p: p[0])]


def first_failure(tests, mutant, **environment):
    """The test that notices the mutant, if any; those of its room run first."""
    room = "test_" + mutant.path.split("/")[1]
    own = [t for t in tests if Path(t.command[0]).name == room]
    others = [t for t in tests if Path(t.command[0]).name != room]
    return next((t.name for t in own + others if not t.passes(**environment)), None)


def try_plainly(build, tests, mutant):
    """Built by itself: the test that noticed it, "survived" or "stillborn"."""
    try:
        build.write(mutant.path, plain=mutant)
        if build.ninja():
            return "stillborn"
        return first_failure(tests, mutant) or "survived"
    finally:
        build.write(mutant.path)


def main():
    parser = argparse.ArgumentParser(description="Which mutants of sim/ the tests notice.")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=Path, metavar="FILE",
                        help="none drawn, but those that nothing noticed in these results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--longest", type=float, default=math.inf, metavar="SECONDS",
                        help="leave out tests that take more CPU time than this")
    parser.add_argument("--build", type=Path, default=Path("build/mutants"))
    arguments = parser.parse_args()
    build = Build(ROOT / arguments.build)
    build.configure()
    drawn = mutants.all_mutants(ROOT)
    random.Random(arguments.seed).shuffle(drawn)
    compiled = build.commands()
    drawn = [m for m in drawn if m.path in compiled]
    print(f"{len(drawn)} mutants of sim/", flush=True)

    def name_of(m):
        return f"{m.path}:{m.line} {m.kind}: {build.text(m.path)[m.begin : m.end]} -> {m.text}"

    if arguments.again:
        lines = map(json.loads, arguments.again.read_text().splitlines())
        missed = {r["mutant"] for r in lines if r["end"] in ("survived", "not reached")}
        paths = {name.split(":")[0] for name in missed}
        drawn = [m for m in drawn if m.path in paths and name_of(m) in missed]
        print(f"{len(drawn)} of {len(missed)} are there", flush=True)
        arguments.count = len(drawn)
    else:
        drawn = drawn[: arguments.count * 5 // 4]  # some are stillborn
    drawn = dict(enumerate(drawn, 1))
    names = {n: name_of(m) for n, m in drawn.items()}
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    known = {r["mutant"]: r["end"] for r in map(json.loads, lines)}

    def note(number, end):
        known[names[number]] = end
        with arguments.results.open("a") as out:
            out.write(json.dumps({"mutant": names[number], "end": end}) + "\n")

    try:
        plain = {n for n, mutant in drawn.items() if not build.add(n, mutant)}
        for path in list(build.switches):
            build.write(path)
        while said := build.ninja():
            dropped = build.drop_failed(said)
            plain |= dropped
            if not dropped:
                sys.exit("mutate.py: the sources do not build\n" + said[-4000:])
        print(f"{len(drawn) - len(plain)} stand behind switches", flush=True)
        tests = what_is_reached(all_tests(build.folder), drawn, build.folder,
                                arguments.jobs)
        tests = [t for t in tests if t.seconds <= arguments.longest]
        print(f"{len(tests)} tests", flush=True)

        def end_of(number):
            if names[number] not in known:
                if number in plain:
                    end = try_plainly(build, tests, drawn[number])
                else:
                    reaching = [t for t in tests if number in t.reached]
                    end = first_failure(reaching, drawn[number], REHEARSE_MUTANT=str(number)) or (
                        "survived" if reaching else "not reached")
                if end in ("survived", "not reached") and build.changes_nothing(drawn[number]):
                    end = "same"
                note(number, end)
            print(f"{known[names[number]]}: {names[number]}", flush=True)
            return known[names[number]]

        # The first `count` as drawn, those to be built alone after the others; then as many more
        # as make up for what is no mutant.
        rest = list(drawn)
        ends = []
        while rest and len(ends) < arguments.count:
            wanted = arguments.count - len(ends)
            part, rest = rest[:wanted], rest[wanted:]
            with ThreadPoolExecutor(arguments.jobs) as pool:
                found = list(pool.map(end_of, (n for n in part if n not in plain)))
            found += map(end_of, (n for n in part if n in plain))
            if plain.intersection(part):
                build.ninja()  # as it was: with switches alone
            ends += (e for e in found if e not in ("stillborn", "same"))
            caught = sum(e not in ("survived", "not reached") for e in ends)
            print(f"{caught} of {len(ends)} caught", flush=True)
    finally:
        build.restore()


if __name__ == "__main__":
    main()

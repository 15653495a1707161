#!/usr/bin/env python3
"""How many small faults in sim/ do the tests notice?

    tests/mutation/mutate.py --results FILE [--count 200] [--seed 1] [--build build/ci]

Draws mutants (mutants.py) of this checkout, builds what each touches, runs the tests of its room,
then all others, and stops at the first failure. FILE gets a line of JSON for each mutant; a mutant
that is there already is not run again, so a run that was cut off goes on. Wants a checkout of its
own that nobody edits, with the tests built and passing; hours. What a mutant does not compile to,
or compiles to the same program, is no mutant: another is drawn.
"""

import argparse
import hashlib
import json
import math
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import mutants

# Rooms whose tests take seconds first; those that run the program last.
LAST = ["command", "search", "campaign", "planner", "calibrate", "replay", "golden"]
# Transcripts of READMEs notice every change of a figure: here they count for nothing.
EXCLUDED = {"golden": ["~*README*", "~golden: install*"]}


def run(command, folder, limit=None):
    """True when the command ends with 0 and takes no more than `limit` seconds of CPU time.

    Wall time says little on a machine that does other things too; what sleeps for ever ends after
    an hour."""
    def bound():
        if limit:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit)))

    try:
        done = subprocess.run(command, cwd=folder, timeout=3600, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                              preexec_fn=bound)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def cpu_seconds():
    """Of the processes that ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Tests:
    def __init__(self, build: Path, left_out):
        self.folder = build / "tests"
        programs = [p.name.removeprefix("test_") for p in self.folder.glob("test_*") if p.is_file()
                    and not p.suffix]
        programs = [p for p in programs if p not in left_out]
        self.rooms = sorted(programs, key=lambda r: (r in LAST and LAST.index(r) + 1, r))

    def passes(self, room, limit):
        return run([f"./test_{room}", "--abort", *EXCLUDED.get(room, [])], self.folder, limit)

    def limits(self):
        """CPU seconds that each room's tests may take: thrice what unchanged sources take."""
        limits = {}
        for room in self.rooms:
            began = cpu_seconds()
            if not self.passes(room, None):
                sys.exit(f"mutate.py: test_{room} fails on unchanged sources")
            limits[room] = 3 * (cpu_seconds() - began) + 30
        return limits


def digests(build: Path, rooms):
    """What the programs of these rooms' tests and the program itself are, byte for byte."""
    programs = [build / "tests" / f"test_{room}" for room in rooms] + [build / "rehearse"]
    return [hashlib.sha256(program.read_bytes()).digest() for program in programs]


def try_mutant(root, build, tests, limits, unchanged, mutant):
    """What became of a mutant: the room whose tests noticed it, "survived", "stillborn", "same"."""
    path = root / mutant.path
    source = path.read_text()
    room = mutant.path.split("/")[1]
    own = room in tests.rooms
    try:
        path.write_text(mutant.apply(source))
        target = f"test_{room}" if own else "all"
        if not run(["ninja", "-C", str(build), "-j1", target], root):
            return "stillborn"
        if own and not tests.passes(room, limits[room]):
            return room
        if not run(["ninja", "-C", str(build), "-j1"], root):
            return "stillborn"
        if digests(build, tests.rooms) == unchanged:
            return "same"
        for other in tests.rooms:
            if other != room and not tests.passes(other, limits[other]):
                return other
        return "survived"
    finally:
        path.write_text(source)


def main():
    parser = argparse.ArgumentParser(description="Which mutants of sim/ the tests notice.")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", type=Path, default=Path("build/ci"))
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="ROOM",
                        help="tests not to run: mutants that only they notice count as survivors")
    parser.add_argument("--limit", type=float, metavar="S",
                        help="CPU time of a room's tests, known to pass; otherwise they run once")
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[2]
    build = root / arguments.build
    lines = arguments.results.read_text().splitlines() if arguments.results.exists() else []
    known = {r["mutant"]: r for r in map(json.loads, lines)}
    drawn = mutants.all_mutants(root)
    print(f"{len(drawn)} mutants of sim/", flush=True)
    random.Random(arguments.seed).shuffle(drawn)
    if not run(["ninja", "-C", str(build)], root):
        sys.exit("mutate.py: the unchanged sources do not build")
    tests = Tests(build, arguments.leave_out)
    unchanged = digests(build, tests.rooms)
    limits = dict.fromkeys(tests.rooms, arguments.limit) if arguments.limit else tests.limits()
    counted = caught = 0
    for mutant in drawn:
        if counted == arguments.count:
            break
        text = (root / mutant.path).read_text()[mutant.begin : mutant.end]
        name = f"{mutant.path}:{mutant.line} {mutant.kind}: {text} -> {mutant.text}"
        if name not in known:
            began = time.monotonic()
            end = try_mutant(root, build, tests, limits, unchanged, mutant)
            known[name] = {"mutant": name, "end": end, "s": round(time.monotonic() - began)}
            with arguments.results.open("a") as out:
                out.write(json.dumps(known[name]) + "\n")
        end = known[name]["end"]
        if end in ("stillborn", "same"):
            continue
        counted += 1
        caught += end != "survived"
        print(f"{caught} of {counted} caught; {end}: {name}", flush=True)


if __name__ == "__main__":
    main()

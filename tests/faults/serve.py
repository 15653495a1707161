"""serve.py - `rehearse serve` while one of its system calls goes wrong (interpose.cpp).

python3 serve.py LIBRARY MOST: disturbs at most MOST calls in each way, evenly spread. After each:
  - the server answers three requests as without a fault, or says why not: a status, a closed
    connection
  - the last request is answered as without a fault, unless the server has ended
  - the server ends with a documented exit code, and a message where it did not end by SIGTERM
  - no process and, unless it was killed, no temporary file is left
Exits with 1 if one of these does not hold. tests/golden/serve_faults.cpp calls it, in a folder that
has ./rehearse.
"""

import os
import signal
import sys
import time

from server import Server, requests, scratch

library, most = sys.argv[1], int(sys.argv[2])
counted = 1 << 16  # calls whose kinds are noted
ways = [("fail", 0), ("full", 1), ("short", 2), ("interrupted", 4), ("kill-before", 8)]


def disturbed(call=0, way=""):
    with open("calls", "wb") as file:
        file.write(bytes(8 + counted))
    fault = {"FAULT_AT": str(call), "FAULT_KIND": way} if call else {}
    return Server("--jobs", "1", "--time-limit", "20", LD_PRELOAD=library,
                  FAULT_COUNT=os.path.abspath("calls"), ASAN_OPTIONS="verify_asan_link_order=0",
                  **fault)


def difference(one, other):
    at = len(os.path.commonprefix([one, other]))
    return f"at {at}: {one[at - 20 : at + 80]!r} for {other[at - 20 : at + 80]!r}"


def problem_of(call, way, whole):
    server = disturbed(call, way)
    answers = []
    if server.url:
        answers = [server.ask(*request) for request in requests]
        for request, answer, right in zip(requests, answers, whole):
            if answer != right and answer[0] == 200:
                return f"{request[1]} is answered otherwise: {difference(answer[1], right[1])}"
        for _ in range(3):  # a worker that was lost is started anew
            last = server.ask(*requests[-1])
            if last == whole[-1] or server.process.poll() is not None:
                break
            time.sleep(1)
        if last != whole[-1] and server.process.poll() is None:
            server.end()
            return f"no answer after the fault: {last} {server.message}"
    ended = server.process.poll() if server.url else server.process.wait(20)
    code = server.end()
    killed = way.startswith("kill") and code == -signal.SIGKILL
    if server.left:
        return f"{len(server.left)} processes are left"
    if code is None:
        return "SIGTERM does not end it"
    if not killed and code not in (0, 66, 71, 74, 75):
        return f"ends with {code}: {server.message}"
    if not killed and ended is not None and not server.message:
        return f"ends with {code} without a message"
    # A folder that could not be removed stays: it is in the folder for temporary files.
    if not killed and way != "fail" and os.listdir(scratch):
        return f"leaves {os.listdir(scratch)}"
    return ""


def main():
    server = disturbed()
    whole = [server.ask(*request) for request in requests]
    code = server.end()
    if code != 0 or any(status != 200 for status, _ in whole):
        sys.exit(f"serve.py: without a fault: {whole} {code} {server.message}")
    with open("calls", "rb") as file:
        kinds = file.read()
    calls = int.from_bytes(kinds[:8], "little")
    faults = [(call, way) for call in range(1, calls + 1) for way, bit in ways
              if bit == 0 or kinds[7 + call] & bit]
    step = -(-len(faults) // most)
    failed = 0
    for call, way in faults[::step]:
        problem = problem_of(call, way, whole)
        if problem:
            failed += 1
            print(f"call {call}, {way}: {problem}", flush=True)
    print(f"{len(faults[::step])} of {len(faults)} faults tried, {failed} problems")
    sys.exit(failed > 0)


main()

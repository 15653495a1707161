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

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time

library, most = sys.argv[1], int(sys.argv[2])
counted = 1 << 16  # calls whose kinds are noted
ways = [("fail", 0), ("full", 1), ("short", 2), ("interrupted", 4), ("kill-before", 8)]
settings = ["model=llama-2-7b", "cluster=dgx-h100", "gpus=8", "global_batch=8", "sequence=4096"]
requests = [
    ("GET", "/api/names", None),
    ("POST", "/api/run", json.dumps({"settings": settings})),
    ("POST", "/api/run", json.dumps({"settings": settings + ["tp=2"]})),
]
scratch = os.path.abspath("serve-tmp")


class Server:
    def __init__(self, call=0, way=""):
        shutil.rmtree(scratch, ignore_errors=True)
        os.mkdir(scratch)
        with open("calls", "wb") as file:
            file.write(bytes(8 + counted))
        environment = dict(os.environ, LD_PRELOAD=library, FAULT_COUNT=os.path.abspath("calls"),
                           TMPDIR=scratch, ASAN_OPTIONS="verify_asan_link_order=0")
        if call:
            environment |= {"FAULT_AT": str(call), "FAULT_KIND": way}
        self.said = open("serve-said", "w+")
        self.process = subprocess.Popen(
            ["./rehearse", "serve", "--port", "0", "--quiet", "--jobs", "1", "--time-limit", "20"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.said,
            start_new_session=True)
        self.url = self.process.stdout.readline().decode().strip()

    def ask(self, method, path, body):
        """(status, body); (0, "") where the server closed the connection."""
        host = self.url[len("http://"):].split("/")[0]
        connection = http.client.HTTPConnection(host, timeout=60)
        try:
            fields = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, body, fields)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        except (ConnectionError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def end(self):
        """Exit code after SIGTERM, or as it ended by itself; None: it had to be killed."""
        self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.left = self.processes()
            for process in self.left:
                os.kill(process, signal.SIGKILL)
            self.process.wait()
            self.process.stdout.close()
            self.said.seek(0)
            self.message = self.said.read()
            self.said.close()

    def processes(self):
        """Processes of its session that are no zombies, a second after its end."""
        for _ in range(20):
            left = []
            for name in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{name}/stat") as file:
                        state, _, _, session = file.read().rpartition(")")[2].split()[:4]
                except OSError:
                    continue
                if int(session) == self.process.pid and state != "Z":
                    left.append(int(name))
            if not left:
                return []
            time.sleep(0.05)
        return left


def difference(one, other):
    at = len(os.path.commonprefix([one, other]))
    return f"at {at}: {one[at - 20 : at + 80]!r} for {other[at - 20 : at + 80]!r}"


def problem_of(call, way, whole):
    server = Server(call, way)
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
    server = Server()
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

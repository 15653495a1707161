"""serve_kills.py - `rehearse serve FOLDER` that is killed while it answers.

python3 serve_kills.py FOLDER KILLS: two clients ask for plans, for a search, for the folder and with
dropped files. At a drawn time SIGKILL hits, in turns, the server or one of its workers.
  - An answer with status 200 is the answer without a kill.
  - After a worker's kill each request is answered: as without a kill, or with 503 and the reason.
    Later requests are answered as without a kill, and SIGTERM ends the server with exit code 0.
  - After the server's kill no process is left, and a new server answers.
  - The folder keeps its bytes.
Exits with 1 if one of these does not hold. tests/golden/serve_faults.cpp calls it, in a folder that
has ./rehearse.
"""

import json
import os
import random
import signal
import sys
import threading
import time

from server import Server, requests, settings

folder, kills = sys.argv[1], int(sys.argv[2])
lost = []  # requests that a kill ended
asked = requests + [
    ("POST", "/api/charts", json.dumps({"settings": settings})),
    ("POST", "/api/fixes", json.dumps({"settings": settings})),
    ("GET", "/api/folder/0", None),
    ("POST", "/api/file", json.dumps({"name": "train.sh", "settings": settings[:2], "text":
        "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
        "--num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 8 "
        "--max-position-embeddings 4096 --vocab-size 32000 --bf16\n"})),
]


def started():
    return Server("--jobs", "2", "--time-limit", "20", folder)


def content():
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.join(path, name)] = file.read()
    return found


class Client(threading.Thread):
    """Asks until `stop`; keeps each request with its answer."""

    def __init__(self, server, seed):
        super().__init__()
        self.server, self.draw, self.answers, self.stop = server, random.Random(seed), [], False
        self.start()

    def run(self):
        while not self.stop:
            one = self.draw.randrange(len(asked))
            try:
                answer = self.server.ask(*asked[one])
            except OSError:  # nobody listens any more
                return
            self.answers.append((one, answer))
            if answer[0] == 0:
                return


def workers(server):
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as file:
        return [int(one) for one in file.read().split()]


def problem_of(kill, whole, draw):
    server = started()
    if not server.url:
        server.end()
        return f"does not start: {server.message}"
    clients = [Client(server, 2 * kill + i) for i in range(2)]
    server.ask("POST", "/api/search", json.dumps({"settings": settings}))
    time.sleep(draw.uniform(0, 0.4))
    of_worker = kill % 2 == 1
    victim = draw.choice(workers(server)) if of_worker else server.process.pid
    os.kill(victim, signal.SIGKILL)
    if of_worker:
        time.sleep(0.1)
        for one in clients:
            one.stop = True
    for one in clients:
        one.join()
    later = [server.ask(*request) for request in asked] if of_worker else whole
    code = server.end()
    for number, (status, body) in (pair for one in clients for pair in one.answers):
        path = asked[number][1]
        if (status, body) == whole[number]:
            continue
        if status == 503 and "killed" in body:
            lost.append(path)
            continue
        if status != 0 or of_worker:
            return f"{path} is answered with {status}: {body[:300]}"
        lost.append(path)
    if later != whole:
        at = next(i for i, pair in enumerate(zip(later, whole)) if pair[0] != pair[1])
        return f"later {asked[at][1]} is answered with {later[at][0]}: {later[at][1][:300]}"
    if server.left:
        return f"{len(server.left)} processes are left"
    if code != (0 if of_worker else -signal.SIGKILL):
        return f"ends with {code}: {server.message}"
    return ""


def main():
    before = content()
    server = started()
    whole = [server.ask(*request) for request in asked]
    code = server.end()
    if code != 0 or any(status != 200 for status, _ in whole):
        sys.exit(f"serve_kills.py: without a kill: {whole} {code} {server.message}")
    draw = random.Random(5)
    failed = 0
    for kill in range(kills):
        problem = problem_of(kill, whole, draw)
        if not problem and content() != before:
            problem = "the folder has other bytes"
        if problem:
            failed += 1
            print(f"kill {kill}: {problem}", flush=True)
    print(f"{kills} kills, {len(lost)} requests lost, {failed} problems")
    sys.exit(failed > 0)


main()

"""load_test.py - many clients of `rehearse serve` at once, each with random changes of a plan.

python3 load_test.py URL PID [CLIENTS] [SECONDS]: prints the number of answers, their times, those that
were lost, and the largest resident memory of the server's process and of all its processes together.
Exits with 1 if an answer was lost or wrong. 32 clients and 60 s are the defaults.
"""

import json
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request

url, pid = sys.argv[1], int(sys.argv[2])
clients = int(sys.argv[3]) if len(sys.argv) > 3 else 32
seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 60
times, lost = [], []
lock = threading.Lock()


def resident(process):
    """Bytes that a process has in memory; shared pages count in each."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def children(process):
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            return [int(one) for one in file.read().split()]
    except OSError:
        return []


def client(seed):
    draw = random.Random(seed)
    plan = {"model": "llama-2-7b", "cluster": "dgx-h100", "gpus": 64, "global_batch": 256,
            "sequence": 4096}
    while time.time() < end:
        key, values = draw.choice([("tp", [1, 2, 4, 8]), ("pp", [1, 2, 4]), ("micro_batch", [1, 2, 4]),
                                   ("recompute", ["none", "selective", "full"]), ("tp", [3])])
        plan[key] = draw.choice(values)
        request = urllib.request.Request(url + "api/run", json.dumps({"settings": plan}).encode(),
                                         {"Content-Type": "application/json"})
        began = time.time()
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                status, body = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        except OSError as error:
            status, body = 0, str(error).encode()
        right = status == (422 if plan.get("tp") == 3 else 200)
        if right:
            right = "result" in json.loads(body)
        with lock:
            times.append(time.time() - began)
            if not right:
                lost.append((status, body[:200]))


end = time.time() + seconds
threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
for one in threads:
    one.start()
server = together = 0
while any(one.is_alive() for one in threads):
    server = max(server, resident(pid))
    together = max(together, resident(pid) + sum(resident(one) for one in children(pid)))
    time.sleep(0.2)
times.sort()
print(f"{clients} clients, {seconds:.0f} s: {len(times)} answers, {len(lost)} lost; median "
      f"{1000 * times[len(times) // 2]:.0f} ms, p95 {1000 * times[int(0.95 * len(times))]:.0f} ms; "
      f"server {server / 1e6:.0f} MB, with its workers {together / 1e6:.0f} MB")
for one in lost[:5]:
    print("lost:", one)
sys.exit(1 if lost or not times else 0)

"""server.py - `rehearse serve` for tests that disturb or kill it: serve.py, serve_kills.py.

Runs in a folder that has ./rehearse.
"""

import http.client
import json
import os
import shutil
import signal
import subprocess
import time

scratch = os.path.abspath("serve-tmp")
settings = ["model=llama-2-7b", "cluster=dgx-h100", "gpus=8", "global_batch=8", "sequence=4096"]
requests = [
    ("GET", "/api/names", None),
    ("POST", "/api/run", json.dumps({"settings": settings})),
    ("POST", "/api/run", json.dumps({"settings": settings + ["tp=2"]})),
]


class Server:
    """`rehearse serve ARGUMENTS` in a session of its own, whose temporary files are in `scratch`."""

    def __init__(self, *arguments, **environment):
        shutil.rmtree(scratch, ignore_errors=True)
        os.mkdir(scratch)
        self.said = open("serve-said", "w+")
        self.process = subprocess.Popen(
            ["./rehearse", "serve", "--port", "0", "--quiet",
             *os.environ.get("SERVE_OPTIONS", "").split(), *arguments],
            env=os.environ | {"TMPDIR": scratch} | environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self.said, start_new_session=True)
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

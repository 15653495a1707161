"""hostile_test.py - requests that `rehearse serve` must refuse, over plain sockets.

python3 hostile_test.py HOST PORT: sends each request of the list, checks the status, and checks after
each that the server still answers. Exits with 1 if one was answered. tests/golden/serve.cpp calls it.
"""

import json
import socket
import sys
import time

host, port = sys.argv[1], int(sys.argv[2])
own = f"{host}:{port}"
failed = 0


def talk(data, seconds=15, pause=None):
    """The status of the first reply; 0: the server closed without one."""
    with socket.create_connection((host, port), seconds) as connection:
        connection.settimeout(seconds)
        try:
            if pause:
                for byte in data:
                    connection.sendall(bytes([byte]))
                    time.sleep(pause)
            else:
                connection.sendall(data)
            got = b""
            while b"\r\n\r\n" not in got and len(got) < 1 << 16:
                more = connection.recv(4096)
                if not more:
                    break
                got += more
        except (ConnectionResetError, BrokenPipeError):
            return 0
        except socket.timeout:
            return -1
    return int(got.split(b" ")[1]) if got.startswith(b"HTTP/1.1 ") else 0


def request(method="GET", target="/", host_line=own, body=b"", fields=(), version="HTTP/1.1"):
    lines = [f"{method} {target} {version}"]
    if host_line is not None:
        lines.append("Host: " + host_line)
    lines += fields
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def post(target, body, kind="application/json", fields=(), host_line=own):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return request("POST", target, host_line, body, [f"Content-Type: {kind}", *fields])


def run(*settings):
    return post("/api/run", {"settings": list(settings)})


plan = ["model=llama-2-7b", "cluster=dgx-h100", "gpus=8", "global_batch=8", "sequence=4096"]
good = post("/api/run", {"settings": plan})
# Each with the statuses that are right; 0: closed without a reply.
requests = [
    # paths
    ("parent folder", request(target="/../etc/passwd"), {400}),
    ("parent folder, encoded", request(target="/%2e%2e/etc/passwd"), {400}),
    ("double slash", request(target="//etc/passwd"), {400}),
    ("absolute file", request(target="/etc/passwd"), {404}),
    ("file of the repository", request(target="/models/llama-2-7b.json"), {404}),
    ("backslash", request(target="/..\\..\\etc"), {400, 0}),
    ("no slash", request(target="etc"), {400, 0}),
    ("whole address of another host", request(target="http://evil.example/"), {400}),
    ("unknown route", request(target="/api/nothing"), {404}),
    ("unknown route, POST", post("/api/nothing", {}), {404}),
    ("long path", request(target="/" + "a" * 4000), {400, 431}),
    ("zero byte in the path", request(target="/a\0b"), {400, 0}),
    ("asterisk", request("OPTIONS", "*"), {400, 405}),
    ("dot file", request(target="/.git/config"), {404}),
    # methods
    ("PUT", request("PUT", "/api/run"), {405}),
    ("DELETE", request("DELETE", "/"), {405}),
    ("TRACE", request("TRACE", "/"), {405}),
    ("CONNECT", request("CONNECT", own), {400, 405}),
    ("HEAD", request("HEAD", "/"), {405}),
    ("PATCH", request("PATCH", "/"), {405}),
    ("unknown method", request("HACK", "/"), {400, 405}),
    ("POST to the page", post("/", {}), {404}),
    ("GET of a run", request(target="/api/run"), {404}),
    # Host: DNS rebinding
    ("no Host", request(host_line=None), {421, 400}),
    ("another Host", request(host_line="evil.example"), {421}),
    ("another Host with our port", request(host_line=f"evil.example:{port}"), {421}),
    ("our Host without its port", request(host_line=host), {421}),
    ("our Host with another port", request(host_line=f"{host}:1"), {421}),
    ("a Host that begins as ours", request(host_line=own + ".evil.example"), {421}),
    ("two Hosts", request(fields=["Host: evil.example"]), {421, 400}),
    ("empty Host", request(host_line=""), {421}),
    ("Host with a user", request(host_line="evil@" + own), {421}),
    # Origin: cross-site requests
    ("Origin of another site", post("/api/run", {"settings": plan}, fields=["Origin: http://evil.example"]), {403}),
    ("Origin null", post("/api/run", {"settings": plan}, fields=["Origin: null"]), {403}),
    ("Origin with https", post("/api/run", {"settings": plan}, fields=["Origin: https://" + own]), {403}),
    ("Origin with another port", post("/api/run", {"settings": plan}, fields=[f"Origin: http://{host}:1"]), {403}),
    ("Origin of a file", post("/api/run", {"settings": plan}, fields=["Origin: file://"]), {403}),
    ("Origin that begins as ours", post("/api/run", {"settings": plan}, fields=["Origin: http://" + own + ".evil.example"]), {403}),
    ("cross-site fetch", post("/api/run", {"settings": plan}, fields=["Sec-Fetch-Site: cross-site"]), {403}),
    ("same-site fetch", post("/api/run", {"settings": plan}, fields=["Sec-Fetch-Site: same-site"]), {403}),
    ("cross-site list", request(target="/api/names", fields=["Sec-Fetch-Site: cross-site"]), {403}),
    ("form post", post("/api/run", b"a=b", "application/x-www-form-urlencoded"), {415}),
    ("multipart post", post("/api/file", b"--x", "multipart/form-data; boundary=x"), {415}),
    ("no content type", request("POST", "/api/run", body=b"{}"), {415}),
    # sizes and forms
    ("header of 64 KiB", request(fields=["X: " + "a" * 65536]), {431, 0}),
    ("ten thousand fields", request(fields=["X: a"] * 10000), {431, 0}),
    ("body of 16 MiB", post("/api/run", b"a" * (16 << 20)), {413, 0}),
    ("huge content length", request("POST", "/api/run", fields=["Content-Type: text/plain", "Content-Length: 99999999999"])
        .replace(b"Content-Length: 0\r\n", b""), {413, 400, 0}),
    ("negative content length", request(fields=["Content-Length: -1"]), {400, 0}),
    ("two content lengths", request("POST", "/api/run", fields=["Content-Type: text/plain", "Content-Length: 5"]), {400, 0}),
    ("length and chunks", request("POST", "/api/run", fields=["Content-Type: text/plain", "Transfer-Encoding: chunked"]), {400, 0}),
    ("no HTTP", b"hello\r\n\r\n", {400, 0}),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 64, {400, 0}),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 405, 0}),
    ("HTTP/9.9", request(version="HTTP/9.9"), {400, 0}),
    ("split header", request(fields=["X: a\r\nY"]), {400, 0}),
    ("GET with a body", request(body=b"hello"), {400}),
    # bodies
    ("no JSON", post("/api/run", b"{"), {422}),
    ("JSON list", post("/api/run", []), {422}),
    ("JSON nested 100,000 deep", post("/api/run", b"[" * 100000), {422}),
    ("unknown key", post("/api/run", {"settings": plan, "report": "/tmp/x"}), {422}),
    ("not UTF-8", post("/api/run", b'{"settings":["model=\xff\xfe"]}'), {422}),
    ("empty", post("/api/run", {}), {422}),
    # settings that are options or files
    ("an option", run(*plan, "--report=/tmp/x"), {422}),
    ("an option as a plan", post("/api/run", {"plan": "--help", "settings": plan}), {422}),
    ("a file as a plan", post("/api/run", {"plan": "/etc/passwd", "settings": plan}), {422}),
    ("a parent folder as a plan", post("/api/run", {"plan": "../x", "settings": plan}), {422}),
    ("a file as a model", run("model=/etc/passwd", *plan[1:]), {422}),
    ("a device as a model", run("model=/dev/zero", *plan[1:]), {422}),
    ("a relative file as a model", run("model=../../etc/passwd.json", *plan[1:]), {422}),
    ("a file without a slash", run("model=passwd.json", *plan[1:]), {422}),
    ("a file as a cluster", run(plan[0], "cluster=/etc/hostname", *plan[2:]), {422}),
    ("a file of measured bandwidth", run(*plan, "node_bandwidth=/etc/passwd"), {422}),
    ("a line break", run(*plan, "tp=2\nmodel=x"), {422}),
    ("a zero byte", run(*plan, "tp=2\0"), {422}),
    ("a long value", run(*plan, "name=" + "a" * 20000), {422}),
    ("a thousand settings", run(*(plan * 200)), {422}),
    ("a shell command", run(*plan, "tp=$(reboot)"), {422}),
    ("too many GPUs", run("gpus=99999999999999999999", *plan[:2], *plan[3:]), {422}),
    ("a plan file that names a file", post("/api/file", {"name": "a.textproto", "text":
        'model: "/etc/passwd" cluster: "dgx-h100" gpus: 8 global_batch: 8 sequence: 4096'}), {422}),
    ("a script that sources a file", post("/api/file", {"name": "a.sh", "text": "source /etc/passwd\n$(cat /etc/passwd)"}), {422}),
    ("a file with a path as its name", post("/api/file", {"name": "../../x/config.json", "text": "{}"}), {422}),
    ("a file without text", post("/api/file", {"name": "config.json"}), {422}),
    ("a search of nothing", post("/api/search", {}), {422}),
    ("a search with an option", post("/api/search", {"model": "--output=/tmp/x", "cluster": "dgx-h100",
        "gpus": 8, "batch": 8, "sequence": 4096}), {422}),
    ("a search of text", post("/api/search", {"model": "llama-2-7b", "cluster": "dgx-h100",
        "gpus": "8;reboot", "batch": 8, "sequence": 4096}), {422}),
    # folders and snapshots
    ("a folder that is not shown", request(target="/api/folder/7"), {404}),
    ("a negative folder", request(target="/api/folder/-1"), {404}),
    ("a folder by its path", request(target="/api/folder/etc"), {404}),
    ("a folder above", request(target="/api/folder/../../etc"), {400}),
    ("a folder of no number", request(target="/api/folder/"), {404}),
    ("a huge folder", request(target="/api/folder/99999999999999999999999"), {404}),
    ("a snapshot as JSON", post("/api/snapshot", {}), {415}),
    ("a snapshot of another site", post("/api/snapshot", b"x", "application/octet-stream",
        ["Origin: http://evil.example"]), {403}),
    ("a snapshot of noise", post("/api/snapshot", bytes(range(256)) * 100, "application/octet-stream"), {422}),
    ("a snapshot that runs a command", post("/api/snapshot", b"\x80\x04cos\nsystem\n(X\x06\0\0\0rebootR.",
        "application/octet-stream"), {422}),
    ("a snapshot of a million lists", post("/api/snapshot", b"\x80\x04" + b"]" * 1000000 + b".",
        "application/octet-stream"), {422}),
    ("a snapshot of 1 GiB", request("POST", "/api/snapshot", fields=["Content-Type: application/octet-stream",
        "Content-Length: 1073741824"]).replace(b"Content-Length: 0\r\n", b""), {413, 0}),
    ("bytes as a plan", post("/api/run", b"\x80\x04", "application/octet-stream"), {415}),
    ("the state of no search", post("/api/search/state", {"job": 12345}), {404}),
    ("the state of a text", post("/api/search/state", {"job": "x"}), {404}),
]

for name, data, right in requests:
    status = talk(data)
    alive = talk(request())
    if status not in right or alive != 200:
        failed += 1
        print(f"FAIL  {name}: {status}, wanted {sorted(right)}; then the page: {alive}")

# A client that sends a byte a second may hold a connection, but no other client.
slow = [socket.create_connection((host, port)) for _ in range(60)]
for one in slow:
    one.sendall(b"POST /api/run HTTP/1.1\r\nHost: " + own.encode() + b"\r\nContent-Le")
began = time.time()
status = talk(good, 60)
if status != 200:
    failed += 1
    print("FAIL  a run beside sixty slow clients:", status)
slow[0].settimeout(20)
try:
    ended = slow[0].recv(1000)
    if ended and not ended.startswith(b"HTTP/1.1 408"):
        failed += 1
        print("FAIL  a slow client was answered:", ended[:60])
except (ConnectionResetError, socket.timeout) as error:
    if isinstance(error, socket.timeout):
        failed += 1
        print("FAIL  a slow client is still connected after 20 s")
for one in slow:
    one.close()
# More connections than the limit are closed, and those before them still work.
many = [socket.create_connection((host, port)) for _ in range(300)]
for one in many:
    one.close()
time.sleep(0.2)
if talk(good, 60) != 200:
    failed += 1
    print("FAIL  a run after 300 connections")
print(f"{len(requests)} hostile requests, {failed} failed")
sys.exit(1 if failed else 0)

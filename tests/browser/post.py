"""post.py URL FILE - sends the file as JSON; prints the body of the reply, then its status."""

import sys
import urllib.error
import urllib.request

with open(sys.argv[2], "rb") as file:
    request = urllib.request.Request(sys.argv[1], file.read(), {"Content-Type": "application/json"})
try:
    with urllib.request.urlopen(request, timeout=120) as reply:
        status, body = reply.status, reply.read()
except urllib.error.HTTPError as error:
    status, body = error.code, error.read()
print(body.decode().rstrip("\n"))
print(status)

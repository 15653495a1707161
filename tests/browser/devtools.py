"""devtools.py - drives headless Chromium by its DevTools protocol over a pipe, with Python alone.

Used by page_test.py. Chromium reads messages from file descriptor 3 and writes them to 4; each ends
with a zero byte [chromedevtools.github.io/devtools-protocol].
"""

import json
import os
import shutil
import subprocess
import tempfile
import time


class Browser:
    """One Chromium with one page. Console messages and exceptions collect in `problems`."""

    def __init__(self, width=1280, height=900):
        self.folder = tempfile.mkdtemp(prefix="rehearse-browser-")
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=" + self.folder,
                 f"--window-size={width},{height}", "about:blank"]

        def pipes():
            # Above 4 first, so that neither copy closes the other.
            one, other = os.dup2(to_read, 20), os.dup2(back_write, 21)
            os.dup2(one, 3)
            os.dup2(other, 4)

        self.process = subprocess.Popen(["chromium", *flags], preexec_fn=pipes, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(back_write)
        self.number = 0
        self.received = b""
        self.problems = []
        self.session = None
        target = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][0]
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.received:
            got = os.read(self.back, 1 << 16)
            if not got:
                raise RuntimeError("Chromium ended")
            self.received += got
        text, self.received = self.received.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        if method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.problems.append(" ".join(str(a.get("value")) for a in given["args"]))
        if method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.problems.append(given["entry"]["text"] + " " + given["entry"].get("url", ""))

    def call(self, method, **given):
        self.number += 1
        message = {"id": self.number, "method": method, "params": given}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(method + ": " + answer["error"]["message"])
                return answer["result"]
            self.note(answer)

    def run(self, script):
        """The value of a JavaScript expression, promises awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, script, seconds=60):
        """Waits until the expression is true."""
        end = time.time() + seconds
        while not self.run("Boolean(document.body) && Boolean(" + script + ")"):
            if time.time() > end:
                raise RuntimeError("not in " + str(seconds) + " s: " + script)
            time.sleep(0.03)

    def open(self, url):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def size(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def download_to(self, folder):
        """Files that the page gives to its reader go into the folder."""
        page, self.session = self.session, None
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
        self.session = page

    def picture(self, path, whole=False):
        import base64
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            os.write(self.to, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        for _ in range(20):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                break
            time.sleep(0.1)

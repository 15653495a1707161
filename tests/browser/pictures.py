"""pictures.py - the two pictures of README: python3 tests/browser/pictures.py [FOLDER]

Runs `./rehearse` and headless Chromium in the folder of the sources, and writes to FOLDER (results):
  out-of-memory.png  the report of a plan that runs out of memory: memory over time and the cause
  search.png         the page of `rehearse serve` after a search: the front of time against memory
tests/golden/serve.cpp calls it.
"""

import os
import subprocess
import sys
import tempfile

from devtools import Browser

job = ["model=llama-3.1-8b", "cluster=dgx-h100", "gpus=64", "global_batch=256", "sequence=8192"]


def clip(browser, path, script):
    """The part of the page that the script names: [x, y, width, height]."""
    import base64
    x, y, width, height = browser.run(script)
    data = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": x, "y": y, "width": width, "height": height, "scale": 1})["data"]
    with open(path, "wb") as file:
        file.write(base64.b64decode(data))


def out_of_memory(browser, folder):
    with tempfile.TemporaryDirectory() as scratch:
        page = os.path.join(scratch, "report.html")
        subprocess.run(["./rehearse", "report", *job, "tp=2", "micro_batch=2", "-o", page, "-q"],
                       check=False)
        browser.size(1000, 900)
        browser.open("file://" + page)
        browser.wait("document.documentElement.dataset.ready !== undefined")
        # The verdict, its cause and the chart; the report has more.
        browser.run("document.querySelectorAll('#controls, section.note:nth-child(n+3), .downloads')"
                    ".forEach((one) => one.remove())")
        clip(browser, os.path.join(folder, "out-of-memory.png"),
             "[0, 0, 1000, document.querySelector('section.areas').getBoundingClientRect().bottom + 8]")


def search(browser, folder):
    server = subprocess.Popen(["./rehearse", "serve", "--port", "0", "--quiet"], stdout=subprocess.PIPE,
                              text=True)
    try:
        browser.size(1200, 900)
        browser.open(server.stdout.readline().strip() + "#" + "&".join(job) + "&tp=2")
        browser.wait("document.documentElement.dataset.charted !== undefined")
        browser.run("document.querySelector('#start').click()")
        browser.wait("document.querySelector('#found table button')", 300)
        browser.run("document.querySelector('#find').scrollIntoView()")
        browser.run("document.querySelectorAll('#assumed, #charts').forEach((one) => one.remove())")
        clip(browser, os.path.join(folder, "search.png"),
             "[0, Math.max(0, document.querySelector('#find').getBoundingClientRect().top + scrollY - 8),"
             " 1200, 720]")
    finally:
        server.terminate()
        server.wait()


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "results"
    browser = Browser()
    try:
        out_of_memory(browser, folder)
        search(browser, folder)
        if browser.problems:
            print("\n".join(browser.problems))
            return 1
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

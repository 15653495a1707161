"""pictures.py - a picture of the page: python3 tests/browser/pictures.py [FOLDER]

Runs `./rehearse` and headless Chromium in the folder of the sources, and writes to FOLDER (results)
search.png: the page of `rehearse serve` after a search, with the front of time against memory. The other
picture of README, results/out-of-memory.svg, is a tested document. tests/golden/serve.cpp calls it.
"""

import os
import subprocess
import sys

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
        search(browser, folder)
        if browser.problems:
            print("\n".join(browser.problems))
            return 1
    finally:
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

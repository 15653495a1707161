"""folder_test.py - folders of sweeps and searches in the page of `rehearse serve`, in Chromium.

python3 folder_test.py URL SWEEP [FOLDER]: SWEEP is the name of a folder with the records of a sweep that
the server shows. Prints a line for each check; pictures go to FOLDER. tests/golden/serve.cpp calls it.
"""

import os
import sys

import checks
from checks import check
from devtools import Browser
from page_test import answered, text


def work(browser, url, sweep, folder):
    browser.size(1280, 900)
    browser.open(url + "#folder=" + sweep)
    browser.wait("document.documentElement.dataset.folder === " + repr(sweep), 60)
    check("the heat map is drawn", browser.run("document.querySelectorAll('#folder rect.cell').length") >= 4)
    marks = browser.run("document.querySelectorAll('#folder section.points path.mark').length")
    rows = browser.run("+/of (\\d+) rows|^(\\d+) rows/.exec([...document.querySelectorAll("
                       "'#folder section.table')].find((s) => /all points/.test(s.textContent))"
                       ".querySelector('.choices span').textContent)[2]")
    check("points are marks", marks > 0, marks)
    if folder:
        browser.picture(os.path.join(folder, "folder.png"))
    filters = browser.run("document.querySelectorAll('#folder select').length")
    check("there are filters", filters >= 4, filters)
    if rows > 5000:
        check("a table of ten thousand rows draws few",
              browser.run("document.querySelectorAll('#folder tbody tr').length") < 500)
    # The first row of the table is the best point.
    table = "[...document.querySelectorAll('#folder section.table')].find((s) => /all points/.test(s.textContent))"
    heads = browser.run(f"[...{table}.querySelectorAll('thead th button')].map((b) => b.textContent)")
    at = [i for i, head in enumerate(heads) if head.startswith("step")][0]
    step = float(browser.run(f"{table}.querySelector('tbody tr:not(.pad)').children[{at}].textContent"))
    browser.run(f"{table}.querySelector('tbody tr:not(.pad)').click()")
    answered(browser)
    shown = browser.run("document.querySelector('#step b').textContent")
    value = float(shown.split()[0]) * (0.001 if shown.endswith("ms") else 1)
    if rows < 5000:  # the long sweep of the test has made-up times
        check("a click opens the point as a plan, with its step", abs(value - step) < 0.006 * step + 0.001,
              (shown, step))
    check("the plan is in the address", "model=" in browser.run("location.hash"))
    browser.run("[...document.querySelectorAll('.folder-button')].find((b) => b.textContent === "
                + repr(sweep) + ").click()")
    check("a button leads back", browser.run("!document.querySelector('#folder').hidden"))
    browser.run("document.querySelector('#folder rect.cell').dispatchEvent(new MouseEvent('click'))")
    answered(browser)
    check("a click on a cell opens a plan", "fits" in text(browser, "#verdict"), text(browser, "#verdict"))
    check("no console error", not browser.problems, browser.problems)
    for width, dark in ((1280, True), (400, False)):
        browser.size(width, 900, dark)
        browser.open(url + "#folder=" + sweep)
        browser.wait("document.documentElement.dataset.folder === " + repr(sweep), 60)
        if width == 400:
            checks.narrow(browser, "the folder")
        else:
            checks.all_colours(browser, "the folder, dark")
        if folder:
            browser.picture(os.path.join(folder, f"folder-{width}.png"))


def main():
    browser = Browser()
    try:
        work(browser, sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
    finally:
        browser.close()
    print("FAILED" if checks.failed else "passed", checks.failed)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""report_test.py - static reports in headless Chromium: light, dark, 400 px wide, as files.

python3 report_test.py FILE...: prints a line for each check, exits with 1 if one fails. With
--pictures FOLDER it leaves pictures there. tests/golden/page.cpp calls it.
"""

import os
import sys

import checks
from checks import check
from devtools import Browser


def shown(browser, path):
    browser.open("file://" + os.path.abspath(path))
    browser.wait("document.documentElement.dataset.ready !== undefined")


def main():
    files, pictures = sys.argv[1:], ""
    if "--pictures" in files:
        at = files.index("--pictures")
        pictures = files[at + 1]
        del files[at:at + 2]
    browser = Browser()
    try:
        for path in files:
            name = os.path.splitext(os.path.basename(path))[0]
            for form, width, dark in (("light", 1280, False), ("dark", 1280, True), ("narrow", 400, False)):
                browser.size(width, 900, dark=dark)
                shown(browser, path)
                if form == "narrow":
                    checks.narrow(browser, name)
                else:
                    checks.all_colours(browser, name + ", " + form)
                if pictures:
                    height = browser.run("document.documentElement.scrollHeight")
                    browser.size(width, min(4000, height), dark=dark)
                    browser.picture(os.path.join(pictures, name + "-" + form + ".png"))
            drawn = browser.run("document.querySelectorAll('section svg[role=img]').length")
            check(name + ": charts are drawn", drawn > 0, drawn)
        check("no console error", not browser.problems, browser.problems)
    finally:
        browser.close()
    print("FAILED" if checks.failed else "passed", checks.failed)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""page_test.py - the page of `rehearse serve` in headless Chromium, as a user works with it.

python3 page_test.py URL [FOLDER]: prints a line for each check, exits with 1 if one fails. Pictures
of the page go to FOLDER, if one is named. tests/golden/serve.cpp calls it.
"""

import base64
import json
import os
import sys
import tempfile
import time
import urllib.parse

import checks
from checks import check
from devtools import Browser

def answered(browser):
    browser.wait("document.documentElement.dataset.answered === "
                 "new URLSearchParams([...new URLSearchParams(location.hash.slice(1))]"
                 ".filter(([k]) => k !== 'pin')).toString()")


def set_field(browser, key, value):
    browser.run(f"""(() => {{
        const node = document.querySelector('[data-key="{key}"] input, [data-key="{key}"] select');
        node.value = {json.dumps(value)};
        node.dispatchEvent(new Event("change", {{ bubbles: true }}));
    }})()""")
    answered(browser)


def text(browser, query):
    return browser.run(f"(document.querySelector({json.dumps(query)}) || {{}}).textContent || ''")


def click(browser, query):
    browser.run(f"document.querySelector({json.dumps(query)}).click()")


def drop(browser, name, content):
    """Drops a file: text, or bytes."""
    part = json.dumps(content) if isinstance(content, str) else \
        "Uint8Array.from(atob(" + json.dumps(base64.b64encode(content).decode()) + "), (c) => c.charCodeAt(0))"
    browser.run(f"""(() => {{
        const data = new DataTransfer();
        data.items.add(new File([{part}], {json.dumps(name)}));
        document.dispatchEvent(new DragEvent("drop", {{ dataTransfer: data, bubbles: true,
            cancelable: true }}));
    }})()""")


def work(browser, url, folder):
    def picture(name):
        if folder:
            browser.picture(os.path.join(folder, name + ".png"))

    browser.size(1280, 900)
    browser.open(url)
    browser.wait("document.documentElement.dataset.ready !== undefined")
    check("the page answers at once", "fits" in text(browser, "#verdict"), text(browser, "#verdict"))
    check("there is a control for each field",
          browser.run("document.querySelectorAll('.field').length") >= 14)
    browser.wait("document.documentElement.dataset.fixed === document.documentElement.dataset.answered",
                 120)
    check("a plan that fits is told what it loses", "%" in text(browser, "#losses"), text(browser, "#fixes"))
    check("changes that help are offered", "%" in text(browser, "#fixes button"), text(browser, "#fixes"))
    step = text(browser, "#step b")
    set_field(browser, "micro_batch", "2")
    check("a change of a setting changes the number", text(browser, "#step b") != step, step)
    check("the setting is in the address", "micro_batch=2" in browser.run("location.hash"))
    browser.wait("document.documentElement.dataset.charted === document.documentElement.dataset.answered")
    check("the charts of the replay are drawn",
          browser.run("document.querySelectorAll('#charts svg').length") >= 3)
    picture("light")
    click(browser, "#pin")
    set_field(browser, "tp", "4")
    click(browser, "#pin")
    rows = browser.run("document.querySelectorAll('#compare tbody tr').length")
    check("two pins are compared", rows == 2, rows)
    check("the difference is named", "tp=4" in text(browser, "#compare tbody tr:nth-child(2)"))
    browser.run("document.querySelector('#compare').scrollIntoView()")
    picture("compare")
    set_field(browser, "tp", "2")
    check("out of memory is said", "out of memory" in text(browser, "#verdict"))
    browser.wait("document.documentElement.dataset.fixed === document.documentElement.dataset.answered",
                 120)
    browser.run("window.scrollTo(0, 0)")
    picture("out-of-memory")
    click(browser, "#fixes button")
    answered(browser)
    check("a fix fits after a click", "fits" in text(browser, "#verdict"), text(browser, "#verdict"))
    set_field(browser, "tp", "3")
    check("an impossible plan is explained", text(browser, ".problems li") != "")
    set_field(browser, "tp", "")
    schedules(browser)
    link = browser.run("location.href")
    shown = text(browser, "#answer .cards")
    browser.open(link)
    browser.wait("document.documentElement.dataset.ready !== undefined")
    check("a shared link opens the same answer", text(browser, "#answer .cards") == shown)
    check("a shared link keeps the pins",
          browser.run("document.querySelectorAll('#compare tbody tr').length") >= 2)
    drop(browser, "config.json", json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
        "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
        "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "hidden_act": "silu"}))
    browser.wait("/architecture.layers=22/.test(decodeURIComponent(location.hash))")
    answered(browser)
    check("a dropped config.json is the model", "fits" in text(browser, "#verdict"),
          text(browser, "#answer"))
    drop(browser, "train.sh", "torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py \\\n"
         " --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \\\n"
         " --max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 64 \\\n"
         " --tensor-model-parallel-size 2 --bf16 --vocab-size 50304\n")
    browser.wait("/gpus=8/.test(location.hash)")
    answered(browser)
    check("a dropped launch script is the plan", "fits" in text(browser, "#verdict"),
          text(browser, "#answer"))
    logs_and_snapshots(browser)
    files(browser)
    search(browser)
    # The answer to an impossible plan is 422, which Chromium notes.
    errors = [one for one in browser.problems if "422" not in one]
    check("no console error", not errors, errors)
    narrow_and_dark(browser, url, picture)


def schedules(browser):
    """The schedule of a plan as papers draw it, with both passes of a split backward pass."""
    set_field(browser, "pp", "4")
    set_field(browser, "schedule", "zb-1p")
    browser.wait("document.documentElement.dataset.charted === document.documentElement.dataset.answered")
    drawn = text(browser, "#charts section.timeline")
    check("the schedule is drawn as in papers", "zb-1p as papers draw it" in drawn, drawn[:200])
    check("both backward passes are in its legend", "gradients of inputs" in drawn and
          "gradients of weights" in drawn, drawn[:300])
    check("its boxes have numbers", browser.run(
        "document.querySelectorAll('#charts section.timeline g[pointer-events=none] text').length") > 20)
    set_field(browser, "schedule", "")
    set_field(browser, "pp", "")


def logs_and_snapshots(browser):
    log = "".join(f" iteration {n:8d}/     100 | consumed samples: {64 * n:12d} | elapsed time per "
                  f"iteration (ms): {900 + n:.1f} | learning rate: 1.0E-04 | global batch size:    64 |\n"
                  for n in range(1, 9))
    drop(browser, "train.log", log)
    browser.wait("/train.log/.test(document.documentElement.dataset.dropped || '')")
    check("a dropped log is compared with the plan", "measured" in text(browser, "#dropped"),
          text(browser, "#dropped")[:200])
    snapshot = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                            "allocator", "data", "magma27_cs336_memory_snapshot.pickle")
    with open(snapshot, "rb") as file:
        drop(browser, "snapshot.pickle", file.read())
    browser.wait("/Memory snapshot/.test(document.documentElement.dataset.dropped || '')", 120)
    check("a dropped memory snapshot is drawn",
          browser.run("document.querySelectorAll('#dropped svg path.mark').length") >= 2)
    check("its peak is named", "allocated" in text(browser, "#dropped"), text(browser, "#dropped")[:200])
    click(browser, "#dropped button")


def files(browser):
    """Downloads: each button gives a whole file."""
    with tempfile.TemporaryDirectory() as folder:
        browser.download_to(folder)

        def got(name, begin):
            end = time.time() + 20
            path = os.path.join(folder, name)
            while time.time() < end and not (os.path.exists(path) and os.path.getsize(path) > 0):
                browser.run("new Promise((done) => setTimeout(done, 50))")
            data = open(path, "rb").read() if os.path.exists(path) else b""
            check("download of " + name, data.startswith(begin), data[:60])
            return data

        answered(browser)
        browser.wait("document.documentElement.dataset.charted === document.documentElement.dataset.answered")
        for label, name, begin in (("JSON", "run.json", b"{"), ("CSV", "stages.csv", b"stage,"),
                                   ("textproto", "plan.textproto", b"# A plan")):
            browser.run("[...document.querySelectorAll('#answer .row button')]"
                        f".find((b) => b.textContent === '{label}').click()")
            got(name, begin)
        browser.run("[...document.querySelectorAll('#answer .row button')]"
                    ".find((b) => b.textContent === 'launch script').click()")
        browser.wait("document.querySelector('#launches pre')")
        check("a launch script is shown", "torchrun" in text(browser, "#launches pre"))
        # Of the first chart of the replay: the pipeline.
        for kind, begin in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"stage,")):
            browser.run("[...document.querySelectorAll('#charts section.timeline .downloads button')]"
                        f".find((b) => b.textContent === '{kind}').click()")
            name = browser.run("document.querySelector('#charts section.timeline h2').textContent")
            file = "".join(c if c.isalnum() else "-" for c in name.lower())
            while "--" in file:
                file = file.replace("--", "-")
            data = got(file[:40].strip("-") + "." + kind.lower(), begin)
            if kind == "PNG":
                check("the picture is not empty", len(data) > 5000, len(data))


def search(browser):
    """A search with its progress, and a found plan that is taken over."""
    for key, value in (("model", "llama-2-7b"), ("gpus", "8"), ("tp", ""), ("micro_batch", ""),
                       ("global_batch", "16"), ("sequence", "4096")):
        set_field(browser, key, value)
    click(browser, "#start")
    browser.wait("document.querySelector('#found table button')", 180)
    check("the search lists plans", "Best plans" in text(browser, "#found"))
    check("the front is drawn", browser.run("document.querySelectorAll('#found circle').length") >= 2)
    step = text(browser, "#found table tr:nth-child(2) td:nth-child(2)")
    click(browser, "#found table button")
    answered(browser)
    check("a found plan has the same step when it is opened", text(browser, "#step b") == step,
          (text(browser, "#step b"), step))


def narrow_and_dark(browser, url, picture):
    browser.size(1280, 900, dark=True)
    browser.open(url)
    browser.wait("document.documentElement.dataset.ready !== undefined")
    browser.wait("document.documentElement.dataset.charted !== undefined")
    checks.all_colours(browser, "dark")
    picture("dark")
    browser.size(1280, 900)
    checks.all_colours(browser, "light")
    browser.size(400, 800)
    browser.open(url)
    browser.wait("document.documentElement.dataset.ready !== undefined")
    browser.wait("document.documentElement.dataset.charted !== undefined")
    checks.narrow(browser, "the page")
    order = browser.run("""["#answer", "#settings", "#charts"].map((name) =>
        document.querySelector(name).getBoundingClientRect().top)""")
    check("400 px: the settings follow the answer", order == sorted(order), order)
    picture("narrow")


def latency(browser, url, changes=100):
    """Milliseconds from a change to the next painted picture: the median, the 95th of 100, the number of
    changes, and of those whose plan was replayed."""
    times = browser.run(f"""(async () => {{
        const times = [];
        for (let i = 0; i < {changes}; ++i) {{
            const value = String([1, 2, 4][i % 3]), key = ["micro_batch", "tp", "pp"][i % 2];
            const node = document.querySelector(`[data-key="${{key}}"] input`);
            const before = document.documentElement.dataset.answered;
            if (node.value === value) continue;
            node.value = value;
            const began = performance.now();
            node.dispatchEvent(new Event("change", {{ bubbles: true }}));
            while (document.documentElement.dataset.answered === before)
                await new Promise((done) => requestAnimationFrame(done));
            await new Promise((done) => requestAnimationFrame(done));
            times.push([performance.now() - began, document.querySelector("#verdict").className]);
        }}
        return times;
    }})()""")
    replayed = sum("bad" not in verdict for _, verdict in times)
    times = sorted(ms for ms, _ in times)
    return times[len(times) // 2], times[int(0.95 * len(times))], len(times), replayed


def main():
    url, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    browser = Browser()
    try:
        if folder == "--latency":
            at = url + "#" + urllib.parse.urlencode(dict(a.split("=") for a in sys.argv[3:]))
            browser.open(at)
            browser.wait("document.documentElement.dataset.ready !== undefined")
            median, high, count, replayed = latency(browser, url)
            print(f"change to picture: median {median:.0f} ms, p95 {high:.0f} ms, {count} changes, "
                  f"{replayed} of them of possible plans")
        else:
            work(browser, url, folder)
    finally:
        browser.close()
    print("FAILED" if checks.failed else "passed", checks.failed)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""checks.py - what every page must have, whoever draws it: contrast, labels, no scroll at 400 px.

page_test.py and report_test.py call it with a browser that shows the page.
"""

failed = 0


def check(what, holds, more=""):
    global failed
    failed += 0 if holds else 1
    print(("ok    " if holds else "FAIL  ") + what + (": " + str(more) if more and not holds else ""))


# The contrast of two CSS colours [WCAG 2.1, relative luminance], of all texts in sight.
contrast_script = """(() => {
    const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 :
        ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (node) => {
        for (let n = node; n; n = n.parentElement) {
            const c = parse(getComputedStyle(n).backgroundColor);
            if (c.length >= 3 && (c.length === 3 || c[3] === 1)) return c;
        }
        return [255, 255, 255];
    };
    const bad = [];
    const words = "p, span, b, label, small, h1, h2, td, th, button, summary, li, legend, .tick text, text.faint";
    for (const node of document.querySelectorAll(words)) {
        if (!node.textContent.trim() || node.getClientRects().length === 0 || node.closest(".busy")) continue;
        if (node.disabled) continue;
        const style = getComputedStyle(node);
        const ink = node.ownerSVGElement ? style.fill : style.color;
        const a = light(parse(ink)), b = light(ground(node));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) bad.push(node.tagName + " " + node.textContent.slice(0, 40) + " " + ratio.toFixed(2));
    }
    return bad.slice(0, 5).join("; ");
})()"""

# Labels on marks: their ink against the colour of the mark, as pairs of page.css.
ink_script = """(() => {
    const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 :
        ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
    const of = (name) => {
        const probe = document.body.appendChild(document.createElement("i"));
        probe.style.color = "var(" + name + ")";
        const colour = light(parse(getComputedStyle(probe).color));
        probe.remove();
        return colour;
    };
    const bad = [];
    for (let i = 0; i < 10; ++i) {
        const a = of("--g" + i), b = of("--i" + i);
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) bad.push(i + " " + ratio.toFixed(2));
    }
    return bad.join("; ");
})()"""

small_script = """[...document.querySelectorAll("section:not(.drawing) svg text")].filter((node) => {
    const box = node.getBoundingClientRect(), view = node.ownerSVGElement.viewBox.baseVal.width;
    return box.width > 0 && parseFloat(getComputedStyle(node).fontSize) *
        node.ownerSVGElement.getBoundingClientRect().width / (view || 400) < 11.5;
}).length"""

# Texts of a chart that begin or end outside of it.
cut_script = """[...document.querySelectorAll("section:not(.drawing) svg[role=img] text")].filter((node) => {
    const box = node.getBoundingClientRect(), chart = node.ownerSVGElement.getBoundingClientRect();
    return box.width > 0 && !node.closest("[clip-path]") &&
        (box.left < chart.left - 1 || box.right > chart.right + 1);
}).map((node) => node.textContent).slice(0, 5).join("; ")"""

unnamed_script = """[
    ...[...document.querySelectorAll("input, select")].filter((node) =>
        !node.labels.length && !node.getAttribute("aria-label")),
    ...[...document.querySelectorAll("button")].filter((node) =>
        !node.textContent.trim() && !node.getAttribute("aria-label")),
    ...[...document.querySelectorAll("section svg")].filter((node) =>
        node.getAttribute("role") === "img" && !node.getAttribute("aria-label")),
    ...[...document.querySelectorAll("table")].filter((node) => !node.closest("[tabindex]")),
].length"""


def all_colours(browser, what):
    bad = browser.run(contrast_script)
    check(what + ": contrast of 4.5", not bad, bad)
    bad = browser.run(ink_script)
    check(what + ": contrast of labels on marks", not bad, bad)


def narrow(browser, what):
    width = browser.run("document.documentElement.scrollWidth")
    check(what + ", 400 px: no horizontal scroll", width <= 400, width)
    small = browser.run(small_script)
    check(what + ", 400 px: text of 12 px", small == 0, small)
    cut = browser.run(cut_script)
    check(what + ", 400 px: no text is cut", not cut, cut)
    unnamed = browser.run(unnamed_script)
    check(what + ": controls, charts and tables have labels", unnamed == 0, unnamed)

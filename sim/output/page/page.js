// page.js — draws a document (output/document.h, as JSON) with D3: that of a static report, or one
// that the server of a live page (live.js) has sent. Every text goes into a text node; nothing of
// the document is ever markup.
"use strict";

// Tables that are on the page now; a printer needs all their rows.
const printed_tables = new Set();

// Gives the reader a file: a text, or a Blob.
function save_as(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type: type || "text/plain" });
  const url = URL.createObjectURL(blob);
  const link = d3.select("body").append("a").attr("href", url).attr("download", name);
  link.node().click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
const csv_of = (rows) => rows.map((row) => row.map((cell) => {
  const text = cell === null || cell === undefined ? "" : String(cell);
  return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}).join(",")).join("\n") + "\n";

// A chart as an SVG of its own, with the styles that the page gives it.
function standalone(svg) {
  const kept = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity",
    "stroke-dasharray", "paint-order", "font-size", "font-family", "font-weight", "text-anchor"];
  const copy = svg.cloneNode(true);
  const to = [copy, ...copy.querySelectorAll("*")];
  [svg, ...svg.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of kept) to[i].style.setProperty(name, style.getPropertyValue(name));
    for (const name of ["tabindex", "role", "class"]) to[i].removeAttribute(name);
  });
  const box = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  return { text: new XMLSerializer().serializeToString(copy), width: box.width, height: box.height,
    ground: getComputedStyle(svg.closest(".drawing") ? svg : svg.closest("section") || document.body)
      .backgroundColor };
}
// The same as a PNG with twice as many pixels as the page has.
function picture_of(svg) {
  const { text, width, height, ground } = standalone(svg);
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  return new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * width;
      canvas.height = 2 * height;
      const pen = canvas.getContext("2d");
      pen.fillStyle = ground;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      URL.revokeObjectURL(url);
      canvas.toBlob(done, "image/png");
    };
    image.onerror = () => { URL.revokeObjectURL(url); failed(new Error("the picture has an error")); };
    image.src = url;
  });
}
// Buttons of a section that give its chart and its data as files. `rows`: the data as a list of
// rows, the headings first; null if there are none.
function downloads(section, name, rows) {
  const chart = () => section.selectAll("svg[role=img]").node();
  const file = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 40).replace(/^-|-$/g, "") || "chart";
  const bar = section.append("div").attr("class", "downloads");
  const button = (text, act, title) => bar.append("button").attr("type", "button").text(text)
    .attr("aria-label", text + " of " + name).attr("title", title).on("click", act);
  if (chart()) {
    button("PNG", async () => save_as(file + ".png", await picture_of(chart())), "this chart as a picture");
    button("SVG", () => save_as(file + ".svg", standalone(chart()).text, "image/svg+xml"),
      "this chart as a vector graphic");
  }
  if (rows) button("CSV", () => save_as(file + ".csv", csv_of(rows()), "text/csv"), "its data");
}

// The end of an axis for these values. A few that are more than five times the rest do not decide
// it: they are cut, and their number is returned.
function axis_end(values) {
  const sorted = values.filter((value) => value !== null && Number.isFinite(value)).sort(d3.descending);
  const few = Math.max(1, Math.floor(sorted.length / 20));
  if (sorted.length > 3 && sorted[few] > 0 && sorted[0] > 5 * sorted[few]) {
    const end = 1.15 * sorted[few];
    return { end, cut: sorted.filter((value) => value > end).length };
  }
  return { end: sorted[0] || 1, cut: 0 };
}

// Draws the blocks of the document `model` into the selection `at`, and its filters into `controls`,
// if there is a place for them. `open_row(table, row)` gets a row that the reader wants to open, if
// the page can.
function view(model, at, controls, open_row) {
  printed_tables.clear();
  const groups = 10;
  const most_rows_on_paper = 200;
  const row_height = 24;

  // ---- tables: columns of values, and which rows the reader's filters leave ----
  const tables = new Map();
  for (const block of model.blocks) {
    if (block.kind !== "table") continue;
    const columns = new Map();
    for (const column of block.columns) {
      for (const key of ["values", "codes"]) {  // [value, count, ...], where values repeat
        const runs = column[key + "_runs"];
        if (runs) column[key] = d3.range(runs.length / 2).flatMap((i) =>
          Array(runs[2 * i + 1]).fill(runs[2 * i]));
      }
      column.at = column.words ? (i) => column.words[column.codes[i]] : (i) => column.values[i];
      column.number = column.words === undefined &&
        column.values.every((v) => v === null || typeof v === "number");
      columns.set(column.key, column);
    }
    block.columns = block.columns.filter((column) => column.heading || column.key === "settings");
    tables.set(block.name, { block, columns, rows: d3.range(block.rows), listeners: [] });
  }
  const chosen_words = new Map();  // by key of a filter: the word that rows must have
  const cell_filters = new Map();  // by key of a column: what stands in its field
  let chosen_rows = new Set();

  const column_of = (table, key) => table.columns.get(key);
  const heading = (column) => column.heading + (column.unit ? " [" + column.unit + "]" : "");
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b :
    d3.ascending(String(a), String(b));
  function cell_text(column, value) {
    if (value === null || value === undefined) return "";
    if (value === true) return "yes";
    if (value === false) return "no";
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? String(value) : value.toFixed(column.digits);
  }
  // "8", ">=3", "<0.5", "4..8", or a part of a text; "!" turns it around.
  function condition(text, number) {
    const negated = text.startsWith("!");
    const wanted = (negated ? text.slice(1) : text).trim();
    let holds;
    const range = /^(-?[\d.]+)\.\.(-?[\d.]+)$/.exec(wanted);
    const bound = /^(>=|<=|>|<|=)?\s*(-?[\d.]+(?:e-?\d+)?)$/.exec(wanted);
    if (number && range) {
      holds = (v) => v !== null && v >= +range[1] && v <= +range[2];
    } else if (number && bound) {
      const at = +bound[2];
      const kinds = { ">=": (v) => v >= at, "<=": (v) => v <= at, ">": (v) => v > at,
        "<": (v) => v < at, "=": (v) => v === at };
      const kind = kinds[bound[1] || "="];
      holds = (v) => v !== null && kind(v);
    } else {
      const part = wanted.toLowerCase();
      holds = (v) => v !== null && String(v).toLowerCase().includes(part);
    }
    return negated ? (v) => !holds(v) : holds;
  }
  function refilter() {
    for (const table of tables.values()) {
      if (!table.block.searched) continue;
      const tests = [];
      for (const [key, word] of chosen_words) {
        const column = column_of(table, key);
        if (column) tests.push((i) => String(column.at(i)) === word);
      }
      for (const [key, text] of cell_filters) {
        const column = column_of(table, key);
        if (!column) continue;
        const holds = condition(text, column.number);
        tests.push((i) => holds(column.at(i)));
      }
      table.rows = d3.range(table.block.rows).filter((i) => tests.every((test) => test(i)));
      for (const listener of table.listeners) listener();
    }
  }
  function choose(table, rows) {
    chosen_rows = new Set(rows);
    for (const listener of table.listeners) listener("chosen");
  }

  // ---- small parts ----
  if (d3.select("#hint").empty())
    d3.select("body").append("div").attr("id", "hint").attr("role", "status");
  const hint = d3.select("#hint").style("display", "none");
  function explain(selection, text) {
    const show = (event, d) => {
      const box = event.target.getBoundingClientRect();
      const x = event.clientX || box.right;
      const y = event.clientY || box.bottom;
      hint.text(text(d)).style("display", "block")
        .style("left", Math.min(x + 12, window.innerWidth - 320) + "px")
        .style("top", Math.min(y + 12, window.innerHeight - 90) + "px");
    };
    selection.on("pointermove", show).on("focus", show)
      .on("pointerleave", () => hint.style("display", "none"))
      .on("blur", () => hint.style("display", "none"));
  }
  function select_of(place, name, options, value, change) {
    const label = place.append("label").text(name + " ");
    const select = label.append("select").on("change", (event) => change(event.target.value));
    for (const [key, text] of options) {
      select.append("option").attr("value", key).property("selected", key === value).text(text);
    }
    return select;
  }
  const colour = (index) => "var(--g" + (index % groups) + ")";
  const ink_on = (index) => "var(--i" + (index % groups) + ")";  // readable on that colour
  const shapes = [d3.symbolCircle, d3.symbolTimes, d3.symbolTriangle, d3.symbolSquare,
    d3.symbolDiamond, d3.symbolWye, d3.symbolStar, d3.symbolCross];
  function legend(place, words, shape, colour_of = colour) {
    const items = place.append("div").attr("class", "legend").selectAll("span").data(words)
      .join("span");
    items.append("svg").attr("viewBox", "-7 -6 14 12").append("path")
      .attr("d", (d, i) => shape ? symbol(i, 50) : "M-6-4h12v8h-12z")
      .attr("fill", (d, i) => shape && i % shapes.length === 1 ? "none" : colour_of(i))
      .attr("stroke", (d, i) => colour_of(i));
    items.append("span").text((d) => d);
  }
  // Passes have the same colour in every picture (job/schedule/timeline_svg.cpp draws with them too);
  // other lanes get those that are left.
  const pass_colours = new Map([["forward", 0], ["backward", 2], ["gradients of inputs", 5],
    ["weight", 4], ["gradients of weights", 4], ["output", 3], ["output gradient", 9]]);
  function colours_of(kinds) {
    const taken = new Set(kinds.map((kind) => pass_colours.get(kind)));
    const free = d3.range(groups).filter((i) => !taken.has(i));
    return new Map(kinds.map((kind) => [kind, pass_colours.has(kind) ? pass_colours.get(kind) :
      free.length > 0 ? free.shift() : 6]));
  }
  // Outcomes have the same place in every chart: a blue circle fits, an orange cross does not.
  const outcomes = ["fits", "oom", "impossible"];
  function in_order(words) {
    const all = [...new Set(words)];
    if (!all.some((word) => outcomes.includes(word))) return all;
    const first = all.includes("oom") ? ["fits", "oom"] : ["fits"];
    return [...first, ...all.filter((word) => !first.includes(word))];
  }
  const symbol = (index, size) => d3.symbol(shapes[index % shapes.length], size)();
  // As wide as the page is, so that text keeps its size on a narrow screen.
  const width = Math.max(300, Math.min(1120, at.node().clientWidth - 50 || 1080));
  function picture(place, height, name) {
    return place.append("svg").attr("viewBox", "0 0 " + width + " " + height)
      .attr("role", "img").attr("aria-label", name);
  }
  function frame(svg, x, y, box, x_name, y_name, ticks) {
    svg.append("g").attr("class", "grid").selectAll("line").data(y.ticks ? y.ticks(ticks) : [])
      .join("line").attr("x1", box.left).attr("x2", box.right).attr("y1", y).attr("y2", y);
    svg.append("g").attr("transform", "translate(0," + box.bottom + ")").call(d3.axisBottom(x)
      .ticks(Math.min(8, width / 80)));
    svg.append("g").attr("transform", "translate(" + box.left + ",0)").call(d3.axisLeft(y)
      .ticks(ticks));
    svg.append("text").attr("class", "faint").attr("x", box.right).attr("y", box.bottom + 34)
      .attr("text-anchor", "end").text(x_name);
    svg.append("text").attr("class", "faint").attr("x", box.left - 40).attr("y", box.top - 8)
      .text(y_name);
  }
  // Writes at `x`, from it to the right or the left, and moves what would leave the box.
  function inside(text, x, to_left, box) {
    const long = 6.8 * text.text().length;
    const from = Math.max(box.left + 2, Math.min(box.right - 2 - long, to_left ? x - long : x));
    text.attr("x", from).attr("text-anchor", "start");
    const most = Math.floor((box.right - box.left) / 6.8);
    if (text.text().length <= most) return;
    const whole = text.text();
    text.text(whole.slice(0, most - 1) + "\u2026").append("title").text(whole);
  }
  function draw_rules(svg, rules, x, y, box, group) {
    let below = 0;  // labels of vertical lines are one below the other
    for (const rule of rules.filter((one) => !one.group || one.group === group)) {
      const path = svg.append("path").attr("class", "rule");
      const name = svg.append("text").attr("class", "rule-name").text(rule.label);
      if (rule.kind === "y" && rule.at <= y.domain()[1]) {
        path.attr("d", "M" + box.left + "," + y(rule.at) + "H" + box.right);
        name.attr("x", box.left + 4).attr("y", y(rule.at) - 4);
      } else if (rule.kind === "x" && rule.at <= x.domain()[1]) {
        path.attr("d", "M" + x(rule.at) + "," + box.bottom + "V" + box.top);
        const right = x(rule.at) > (box.left + box.right) / 2;
        name.attr("y", box.top + 10 + 14 * below++);
        inside(name, x(rule.at) + (right ? -4 : 4), right, box);
      } else if (rule.kind === "slope") {
        const end = Math.min(x.domain()[1], y.domain()[1] / rule.at);
        path.attr("d", "M" + x(0) + "," + y(0) + "L" + x(end) + "," + y(end * rule.at));
        name.attr("x", x(end) - 6).attr("y", y(end * rule.at) + 12).attr("text-anchor", "end");
      }
    }
  }
  // Rows of a table with their keys first, as a CSV file has them.
  const rows_of = (table, rows) => [table.block.columns.map((c) => c.key),
    ...rows.map((i) => table.block.columns.map((c) => c.at(i)))];
  // What a row says of itself, for hints.
  function row_text(table, i, keys) {
    return keys.filter((key) => column_of(table, key)).map((key) => {
      const column = column_of(table, key);
      return column.heading + ": " + cell_text(column, column.at(i)) +
        (column.unit && column.at(i) !== null ? " " + column.unit : "");
    }).join("\n");
  }

  // What the glossary says of the terms in a heading; null where it has none of them.
  const terms = model.glossary.map(([name, line]) => ({
    found: new RegExp("(^|[^a-z0-9])" + name.replaceAll(/[-_ ]/g, "[-_ ]") + "($|[^a-z0-9])", "i"),
    text: name + ": " + line,
  }));
  function tip(text) {
    return terms.filter((term) => term.found.test(text)).map((term) => term.text).join("\n") || null;
  }

  // ---- blocks ----
  const draw = {};
  draw.note = (place, block) => {
    place.attr("class", block.strong ? "note strong" : block.code ? "note code" : "note");
    if (block.title) place.append("h2").text(block.title);
    place.append("p").text(block.text);
  };

  // An SVG that the program drew, on its own white ground.
  draw.drawing = (place, block) => {
    place.append("h2").text(block.title);
    const parsed = new DOMParser().parseFromString(block.svg, "image/svg+xml");
    const svg = document.adoptNode(parsed.documentElement);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", block.title);
    svg.style.minWidth = svg.viewBox.baseVal.width + "px";  // as wide as it was drawn: it scrolls
    place.append("div").attr("class", "scroll").attr("tabindex", 0).node().append(svg);
  };

  draw.table = (place, block) => {
    const table = tables.get(block.name);
    let order = { key: null, down: false };
    let sorted = table.rows;
    place.append("h2").text(block.title);
    const bar = place.append("div").attr("class", "choices");
    const count = bar.append("span");
    const scroll = place.append("div").attr("class", "scroll").attr("tabindex", 0)
      .attr("role", "region").attr("aria-label", block.title);
    const html = scroll.append("table");
    const heads = html.append("thead").append("tr").selectAll("th").data(block.columns).join("th")
      .classed("left", (c) => c.left).attr("scope", "col");
    heads.append("button").text((c) => heading(c)).on("click", (event, c) => {
      order = { key: c.key, down: order.key === c.key && !order.down };
      sort();
    });
    if (block.searched) {
      bar.append("span").text("fields below a heading narrow: 8, >=3, 4..8, part of a text, !not");
      bar.append("button").text("copy as CSV").on("click", copy);
      heads.append("input").attr("type", "search").attr("aria-label", (c) => "only " + heading(c))
        .on("input", (event, c) => {
          const text = event.target.value.trim();
          if (text) cell_filters.set(c.key, text); else cell_filters.delete(c.key);
          refilter();
        });
    }
    const body = html.append("tbody");
    function sort() {
      const column = order.key === null ? null : column_of(table, order.key);
      sorted = table.rows.slice();
      if (column) {
        const sign = order.down ? -1 : 1;
        sorted.sort((a, b) => {
          const x = column.at(a), y = column.at(b);
          if (x === null || y === null) return (x === null) - (y === null);
          return sign * compare(x, y) || a - b;
        });
      }
      heads.attr("aria-sort", (c) => c.key !== order.key ? null : order.down ? "descending" :
        "ascending");
      count.text(sorted.length === block.rows ? block.rows + " rows" :
        sorted.length + " of " + block.rows + " rows");
      render();
    }
    // Only the rows in sight are in the page, however many there are.
    function render(first_and_last) {
      const node = scroll.node();
      const all = sorted.length <= 60;
      const first = all ? 0 : Math.max(0, Math.floor(node.scrollTop / row_height) - 10);
      const last = first_and_last === "paper" ? Math.min(sorted.length, most_rows_on_paper) :
        all ? sorted.length : Math.min(sorted.length, first + 60);
      const from = first_and_last === "paper" ? 0 : first;
      const shown = [{ pad: from }, ...sorted.slice(from, last).map((i) => ({ row: i })),
        { pad: sorted.length - last }];
      const rows = body.selectAll("tr").data(shown).join("tr")
        .attr("class", (d) => d.row === undefined ? "pad" : chosen_rows.has(d.row) &&
          block.searched ? "chosen" : null);
      rows.selectAll("td").data((d) => d.row === undefined ? [d] : block.columns.map((c) =>
        ({ column: c, value: c.at(d.row) }))).join("td")
        .attr("class", (d) => d.column && d.column.left ? "left" : null)
        .attr("colspan", (d) => d.column ? null : block.columns.length)
        .style("height", (d) => d.column ? null : d.pad * row_height + "px")
        .attr("title", (d) => d.column && d.column.left ? cell_text(d.column, d.value) : null)
        .text((d) => d.column ? cell_text(d.column, d.value) : "");
      if (open_row && block.searched)
        rows.filter((d) => d.row !== undefined).attr("tabindex", 0)
          .on("click", (event, d) => open_row(table, d.row))
          .on("keydown", (event, d) => event.key === "Enter" && open_row(table, d.row));
    }
    function copy() {
      const done = (text) => count.text(text);
      if (!navigator.clipboard) return done("this browser does not let a local page copy");
      navigator.clipboard.writeText(csv_of(rows_of(table, sorted)))
        .then(() => done(sorted.length + " rows copied"), () => done("copying was refused"));
    }
    let waiting = false;
    scroll.on("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; render(); });
    });
    printed_tables.add(render);
    table.listeners.push((what) => {
      if (what === "chosen" && chosen_rows.size > 0) {
        const at = sorted.findIndex((i) => chosen_rows.has(i));
        if (at >= 0) scroll.node().scrollTop = Math.max(0, (at - 3) * row_height);
      }
      if (what === "chosen") render(); else sort();
    });
    sort();
  };

  draw.heatmap = (place, block) => {
    const table = tables.get(block.table);
    const name = (key) => [key, heading(column_of(table, key))];
    const state = { x: block.axes[0], y: block.axes[1], value: block.values[0], best: "max" };
    place.append("h2").text(block.title);
    const bar = place.append("div").attr("class", "choices");
    const set = (key) => (value) => { state[key] = value; render(); };
    select_of(bar, "across", block.axes.map(name), state.x, set("x"));
    select_of(bar, "down", block.axes.map(name), state.y, set("y"));
    select_of(bar, "colour", block.values.map(name), state.value, set("value"));
    select_of(bar, "of the points of a cell the", [["max", "largest"], ["min", "smallest"]],
      state.best, set("best"));
    const holder = place.append("div");
    function cells() {
      const x = column_of(table, state.x), y = column_of(table, state.y);
      const value = column_of(table, state.value), outcome = column_of(table, block.outcome);
      const found = new Map();
      for (const i of table.rows) {
        if (x.at(i) === null || y.at(i) === null) continue;
        const key = JSON.stringify([x.at(i), y.at(i)]);
        if (!found.has(key)) {
          found.set(key, { x: x.at(i), y: y.at(i), rows: [], best: null, at: -1, counts: {} });
        }
        const cell = found.get(key);
        cell.rows.push(i);
        const what = outcome.at(i);
        cell.counts[what] = (cell.counts[what] || 0) + 1;
        const v = value.at(i);
        if (v === null || what !== "fits") continue;
        if (cell.best === null || (state.best === "max" ? v > cell.best : v < cell.best)) {
          cell.best = v;
          cell.at = i;
        }
      }
      return [...found.values()];
    }
    function take(cell) {
      choose(table, cell.at >= 0 ? [cell.at] : cell.rows);
      if (open_row && cell.at >= 0) open_row(table, cell.at);
    }
    function render() {
      holder.selectAll("*").remove();
      const all = cells();
      const xs = [...new Set(all.map((c) => c.x))].sort(compare);
      const ys = [...new Set(all.map((c) => c.y))].sort(compare);
      const value = column_of(table, state.value);
      const left = 16 + 7 * d3.max(ys, (v) => String(v).length) || 60;
      const box = { left: Math.min(260, Math.max(60, left)), top: 26 };
      const size = Math.max(18, Math.min(46, 620 / Math.max(1, ys.length)));
      const height = box.top + ys.length * size + 78;
      const svg = picture(holder, height, block.title);
      const x = d3.scaleBand(xs.map(String), [box.left, Math.min(width - 10, box.left + xs.length *
        110)]);
      const y = d3.scaleBand(ys.map(String), [box.top, box.top + ys.length * size]);
      const known = all.filter((c) => c.best !== null);
      const extent = d3.extent(known, (c) => c.best);
      const shade = d3.scaleSequential(d3.interpolateViridis).domain(extent[0] === extent[1] ?
        [extent[0] - 1, extent[1]] : extent);
      const pattern = svg.append("defs").append("pattern").attr("id", "hatch").attr("width", 7)
        .attr("height", 7).attr("patternUnits", "userSpaceOnUse").attr("patternTransform",
          "rotate(45)");
      pattern.append("line").attr("class", "hatch").attr("y2", 7);
      const cell = svg.append("g").selectAll("rect").data(all).join("rect").attr("class",
        (c) => "cell mark" + (c.rows.some((i) => chosen_rows.has(i)) ? " chosen" : ""))
        .attr("x", (c) => x(String(c.x))).attr("y", (c) => y(String(c.y)))
        .attr("width", x.bandwidth()).attr("height", y.bandwidth())
        .attr("fill", (c) => c.best !== null ? shade(c.best) : c.counts.oom ? "url(#hatch)" :
          "var(--line)")
        .attr("tabindex", 0).attr("role", "button")
        .attr("aria-label", (c) => state.y + " " + c.y + ", " + state.x + " " + c.x + ": " +
          (c.best === null ? "nothing fits" : cell_text(value, c.best)))
        .on("click", (event, c) => take(c))
        .on("keydown", (event, c) => {
          const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1],
            ArrowDown: [0, 1] };
          if (event.key === "Enter" || event.key === " ") {
            take(c);
            event.preventDefault();
          } else if (steps[event.key]) {
            event.preventDefault();
            const [dx, dy] = steps[event.key];
            const to_x = xs[xs.indexOf(c.x) + dx], to_y = ys[ys.indexOf(c.y) + dy];
            const next = cell.filter((d) => d.x === to_x && d.y === to_y).node();
            if (next) next.focus();
          }
        });
      explain(cell, (c) => Object.entries(c.counts).map(([what, n]) => n + " " + what).join(", ") +
        (c.at >= 0 ? "\n" + heading(value) + ": " + cell_text(value, c.best) + "\n" +
          row_text(table, c.at, ["point", "tp", "cp", "pp", "dp", "mbs", "recompute"]) : ""));
      svg.append("g").attr("pointer-events", "none").selectAll("text").data(known).join("text")
        .attr("x", (c) => x(String(c.x)) + x.bandwidth() / 2)
        .attr("y", (c) => y(String(c.y)) + y.bandwidth() / 2 + 4).attr("text-anchor", "middle")
        .style("fill", (c) => d3.lab(shade(c.best)).l > 55 ? "#000" : "#fff")
        .text((c) => x.bandwidth() > 34 ? d3.format(".4~g")(c.best) : "");
      svg.append("g").attr("transform", "translate(0," + box.top + ")").call(d3.axisTop(x)
        .tickSize(0)).select(".domain").remove();
      svg.append("g").attr("transform", "translate(" + box.left + ",0)").call(d3.axisLeft(y)
        .tickSize(0)).select(".domain").remove();
      const base = box.top + ys.length * size;
      svg.append("text").attr("class", "faint").attr("x", box.left).attr("y", base + 18)
        .text(heading(column_of(table, state.y)) + " down, " +
          heading(column_of(table, state.x)) + " across");
      if (known.length > 0) {
        const scale = svg.append("defs").append("linearGradient").attr("id", "shade");
        for (const t of d3.range(0, 1.01, 0.1)) {
          scale.append("stop").attr("offset", t).attr("stop-color", d3.interpolateViridis(t));
        }
        svg.append("rect").attr("x", box.left).attr("y", base + 30).attr("width", 220)
          .attr("height", 10).attr("fill", "url(#shade)");
        svg.append("text").attr("class", "faint").attr("x", box.left).attr("y", base + 54)
          .text(cell_text(value, extent[0]));
        svg.append("text").attr("class", "faint").attr("x", box.left + 220).attr("y", base + 54)
          .attr("text-anchor", "end").text(cell_text(value, extent[1]));
        const told = heading(value) + "; hatched: runs out of memory; grey: impossible";
        const fits = box.left + 232 + 6.8 * told.length < width;
        svg.append("text").attr("class", "faint").attr("x", fits ? box.left + 232 : 8)
          .attr("y", fits ? base + 39 : base + 72).text(fits ? told : heading(value));
        if (!fits) holder.append("p").attr("class", "faint").text("hatched: runs out of memory; grey: impossible");
      }
    }
    table.listeners.push(render);
    render();
  };

  draw.points = (place, block) => {
    const table = tables.get(block.table);
    place.append("h2").text(block.title);
    const x_column = column_of(table, block.x), y_column = column_of(table, block.y[0]);
    const group = block.group ? column_of(table, block.group) : null;
    const words = group ? in_order(d3.range(table.block.rows).map((i) => String(group.at(i)))) : [""];
    if (group) legend(place, words, true);
    const svg = picture(place, 430, block.title);
    const box = { left: 62, right: width - 20, top: 24, bottom: 380 };
    const all = d3.range(table.block.rows).filter((i) => x_column.at(i) !== null &&
      y_column.at(i) !== null);
    const high = block.high ? column_of(table, block.high) : y_column;
    const low = block.low ? column_of(table, block.low) : y_column;
    const slope = block.rules.some((rule) => rule.kind === "slope");
    const x_end = axis_end(all.map((i) => x_column.at(i)));
    const y_end = axis_end(all.map((i) => high.at(i) === null ? y_column.at(i) : high.at(i)));
    // Values close to each other would be one line on an axis from 0.
    const begin_of = (column, end) => {
      const least = d3.min(all, (i) => low !== y_column && low.at(i) !== null ?
        Math.min(low.at(i), column.at(i)) : column.at(i)) || 0;
      return least > 0.5 * end && !slope ? least - 0.2 * (end - least) : Math.min(0, least);
    };
    const x = d3.scaleLinear([begin_of(x_column, x_end.end), slope && y_column.unit === x_column.unit ?
      Math.max(x_end.end, y_end.end) : x_end.end], [box.left, box.right]).nice().clamp(true);
    const y = d3.scaleLinear([begin_of(y_column, y_end.end), y_end.end], [box.bottom, box.top]).nice()
      .clamp(true);
    frame(svg, x, y, box, heading(x_column), heading(y_column), 6);
    draw_rules(svg, block.rules, x, y, box);
    if (x_end.cut + y_end.cut > 0)
      place.append("p").attr("class", "faint").text((x_end.cut + y_end.cut) +
        " far away: drawn at the edge of the chart");
    const front_path = svg.append("path").attr("class", "front");
    const intervals = svg.append("g");
    const marks = svg.append("g");
    const index = new Map(words.map((word, i) => [word, i]));
    const of = (i) => group ? index.get(String(group.at(i))) : 0;
    const drawn = words.map((word, i) => symbol(i, table.block.rows > 2000 ? 16 : 34));
    const told = [block.label, block.x, ...block.y, block.group, block.low, block.high,
      "tp", "cp", "pp", "dp", "mbs", "schedule", "recompute"].filter((key) => key);
    function render() {
      const shown = table.rows.filter((i) => x_column.at(i) !== null && y_column.at(i) !== null);
      const mark = marks.selectAll("path").data(shown, (i) => i).join((enter) => {
        const path = enter.append("path").attr("d", (i) => drawn[of(i)])
          .attr("transform", (i) => "translate(" + x(x_column.at(i)) + "," + y(y_column.at(i)) + ")")
          .attr("fill", (i) => of(i) % shapes.length === 1 ? "none" : colour(of(i)))
          .attr("fill-opacity", 0.7).attr("stroke", (i) => colour(of(i)))
          .on("click", (event, i) => { choose(table, [i]); if (open_row) open_row(table, i); });
        explain(path, (i) => row_text(table, i, told));
        return path;
      });
      mark.attr("class", (i) => chosen_rows.has(i) ? "mark chosen" : "mark");
      if (block.low && block.high) {
        intervals.selectAll("line").data(shown.filter((i) => low.at(i) !== null), (i) => i)
          .join("line").attr("class", "interval").attr("stroke", (i) => colour(of(i)))
          .attr("x1", (i) => x(x_column.at(i))).attr("x2", (i) => x(x_column.at(i)))
          .attr("y1", (i) => y(low.at(i))).attr("y2", (i) => y(high.at(i)));
      }
      if (block.front) {
        const order = shown.filter((i) => !group || group.at(i) === "fits").sort((a, b) =>
          x_column.at(a) - x_column.at(b) || y_column.at(b) - y_column.at(a));
        let best = -Infinity;
        const front = order.filter((i) => y_column.at(i) > best && ((best = y_column.at(i)), true));
        front_path.attr("d", d3.line().x((i) => x(x_column.at(i))).y((i) => y(y_column.at(i)))
          .curve(d3.curveStepAfter)(front));
      }
    }
    table.listeners.push(render);
    render();
  };

  const bars_most = 64, bar_height = 30;
  function stacked(place, block, bars) {
    const table = tables.get(block.table);
    place.append("h2").text(block.title);
    const keys = block.y.filter((key) => !block.fixed.includes(key));
    legend(place, [...keys, ...block.fixed].map((key) => column_of(table, key).heading), false,
      (i) => i < keys.length ? colour(i) : "var(--ink)");
    const groups_of = block.group ? d3.groups(d3.range(table.block.rows), (i) =>
      column_of(table, block.group).at(i)) : [["", d3.range(table.block.rows)]];
    let chosen = groups_of[0][0];
    if (groups_of.length > 1) {
      const bar = place.append("div").attr("class", "choices");
      select_of(bar, column_of(table, block.group).heading, groups_of.map(([key]) =>
        [String(key), String(key)]), String(chosen), (value) => { chosen = value; render(); });
    }
    const holder = place.append("div");
    function render() {
      holder.selectAll("*").remove();
      const rows = groups_of.find(([key]) => String(key) === String(chosen))[1];
      const value = (i, key) => column_of(table, key).at(i) || 0;
      const x_column = column_of(table, block.x);
      const layers = d3.stack().keys(keys).value((i, key) => value(i, key))(rows);
      const y_end = d3.max([d3.max(rows, (i) => d3.sum(keys, (key) => value(i, key))),
        d3.max(rows, (i) => d3.max(block.fixed, (key) => value(i, key)) || 0),
        d3.max(block.rules.filter((rule) => rule.kind === "y"), (rule) => rule.at) || 0]);
      const svg = picture(holder, bars ? 60 + bar_height * Math.min(rows.length, bars_most) : 400, block.title);
      if (bars) {
        const ends = rows.slice(0, bars_most).map((i) => d3.sum(keys, (key) => value(i, key)));
        const rule_end = d3.max(block.rules, (rule) => rule.kind === "x" ? 1.02 * rule.at : 0) || 0;
        return draw_bars(svg, rows, layers, Math.max(axis_end(ends).end, rule_end), x_column, keys);
      }
      const box = { left: 62, right: width - 20, top: 24, bottom: 350 };
      const x = d3.scaleLinear(d3.extent(rows, (i) => x_column.at(i)), [box.left, box.right]);
      const y = d3.scaleLinear([0, y_end], [box.bottom, box.top]).nice();
      frame(svg, x, y, box, heading(x_column), heading(column_of(table, keys[0])).replace(/^.* \[/,
        "["), 6);
      const area = svg.append("g").selectAll("path").data(layers).join("path").attr("class", "mark")
        .attr("fill", (d, i) => colour(i)).attr("fill-opacity", 0.85)
        .attr("d", d3.area().x((d, i) => x(x_column.at(rows[i]))).y0((d) => y(d[0]))
          .y1((d) => y(d[1])).curve(d3.curveStepAfter));
      explain(area, (d) => column_of(table, d.key).heading);
      block.fixed.forEach((key) => svg.append("path").attr("class", "mark").attr("fill", "none")
        .attr("stroke", "var(--ink)").attr("stroke-width", 1.6)
        .attr("d", d3.line().x((j) => x(x_column.at(j))).y((j) => y(value(j, key)))
          .curve(d3.curveStepAfter)(rows)));
      draw_rules(svg, block.rules, x, y, box, String(chosen));
      const peak = d3.greatest(rows, (i) => d3.sum(keys, (key) => value(i, key)));
      const total = d3.sum(keys, (key) => value(peak, key));
      const right = x(x_column.at(peak)) > width / 2;
      const name = block.label ? cell_text(column_of(table, block.label),
        column_of(table, block.label).at(peak)) : "";
      svg.append("circle").attr("class", "mark peak").attr("cx", x(x_column.at(peak)))
        .attr("cy", y(total)).attr("r", 4).attr("fill", "none").attr("stroke", "var(--ink)");
      inside(svg.append("text").attr("class", "over").attr("y", y(total) - 6).text("peak " + total.toFixed(2) + " " +
        column_of(table, keys[0]).unit + (name ? ", " + name : "")), x(x_column.at(peak)) +
        (right ? -8 : 8), right, box);
    }
    // A name in at most two lines of `most` characters, broken between words.
    function two_lines(name, most) {
      if (name.length <= most) return [name];
      const at = name.lastIndexOf(" ", most);
      const cut = at > 0 ? at : most;
      const rest = name.slice(cut).trim();
      return [name.slice(0, cut), rest.length > most ? rest.slice(0, most - 1) + "\u2026" : rest];
    }
    function draw_bars(svg, rows, layers, end, x_column, keys_shown) {
      const shown = rows.slice(0, bars_most);
      const names = shown.map((i) => cell_text(x_column, x_column.at(i)));
      const left = Math.min(340, width * 0.36, Math.max(80, 16 + 7 * d3.max(names, (name) => name.length)));
      const box = { left, right: width - 90, top: 10, bottom: 10 + bar_height * shown.length };
      const x = d3.scaleLinear([0, end], [box.left, box.right]).clamp(true);
      const y = d3.scaleBand(d3.range(shown.length), [box.top, box.bottom]).padding(0.2);
      const unit = column_of(table, keys_shown[0]);
      const total = (i) => d3.sum(keys_shown, (key) => column_of(table, key).at(i) || 0);
      layers.forEach((layer, index) => {
        const bar = svg.append("g").selectAll("rect").data(layer.slice(0, bars_most).map((d, i) =>
          ({ d, i }))).join("rect").attr("class", "mark").attr("fill", colour(index))
          .attr("x", ({ d }) => x(d[0])).attr("width", ({ d }) => Math.max(0, x(d[1]) - x(d[0])))
          .attr("y", ({ i }) => y(i)).attr("height", y.bandwidth());
        explain(bar, ({ d, i }) => names[i] + "\n" + column_of(table, layer.key).heading + ": " +
          cell_text(unit, d[1] - d[0]) + " " + unit.unit);
      });
      svg.append("g").selectAll("text").data(names).join("text").attr("x", box.left - 6)
        .attr("y", (d, i) => y(i) + y.bandwidth() / 2 + 4).attr("text-anchor", "end")
        .each(function (name, i) {
          const lines = two_lines(name, Math.floor((box.left - 8) / 6.6));
          d3.select(this).selectAll("tspan").data(lines).join("tspan").attr("x", box.left - 6)
            .attr("y", (line, n) => y(i) + y.bandwidth() / 2 + 4 + 13 * (n - (lines.length - 1) / 2))
            .text((line) => line);
        });
      // The end of a bar beyond the axis is torn off.
      svg.append("g").selectAll("path").data(shown.filter((i) => total(i) > end * 1.001)).join("path")
        .attr("class", "torn").attr("d", (i) => {
          const top = y(shown.indexOf(i)), half = y.bandwidth() / 2;
          return "M" + (box.right - 9) + "," + (top + y.bandwidth() + 2) + "l5,-" + half + "l-5,-3l5,-" + half;
        });
      svg.append("g").selectAll("text").data(shown).join("text").attr("class", "faint")
        .attr("x", (i) => x(total(i)) + 5)
        .attr("y", (i, n) => y(n) + y.bandwidth() / 2 + 4).text((i) => cell_text(unit, total(i)));
      draw_rules(svg, block.rules, x, (value) => value, box);
      svg.append("g").attr("transform", "translate(0," + box.bottom + ")").call(d3.axisBottom(x)
        .ticks(Math.min(8, (box.right - box.left) / 80)));
      svg.append("text").attr("class", "faint").attr("x", box.right).attr("y", box.bottom + 34)
        .attr("text-anchor", "end").text(unit.unit);
    }
    render();
  }
  draw.areas = (place, block) => stacked(place, block, false);
  draw.bars = (place, block) => stacked(place, block, true);
  draw.lines = draw.areas;

  draw.timeline = (place, block) => {
    const table = tables.get(block.table);
    const column = (key) => column_of(table, key);
    place.append("h2").text(block.title);
    const rows = d3.range(table.block.rows);
    const lanes = [...new Set(rows.map((i) => String(column(block.lane).at(i))))];
    const kinds = [...new Set(rows.map((i) => String(column(block.group).at(i))))];
    const chosen_colours = colours_of(kinds);
    const index_of = (i) => chosen_colours.get(String(column(block.group).at(i)));
    legend(place, kinds, false, (i) => colour(chosen_colours.get(kinds[i])));
    const bar = place.append("div").attr("class", "choices");
    const lane_height = Math.max(14, Math.min(30, 560 / lanes.length));
    const box = { left: Math.min(220, width * 0.42, 20 + 7 * d3.max(lanes, (l) => l.length)), right: width - 10,
      top: 8, bottom: 8 + lane_height * lanes.length };
    const svg = picture(place, box.bottom + 40, block.title).attr("tabindex", 0);
    const begin = d3.min(rows, (i) => column(block.begin).at(i));
    const end = d3.max(rows, (i) => column(block.end).at(i));
    const full = d3.scaleLinear([begin, end], [box.left, box.right]);
    const y = d3.scaleBand(lanes, [box.top, box.bottom]).padding(0.12);
    const id = "clip" + Math.floor(1e9 * begin + lanes.length);
    svg.append("clipPath").attr("id", id).append("rect").attr("x", box.left).attr("y", 0)
      .attr("width", box.right - box.left).attr("height", box.bottom);
    const inside = svg.append("g").attr("clip-path", "url(#" + id + ")");
    inside.append("rect").attr("x", box.left).attr("y", 0).attr("width", box.right - box.left)
      .attr("height", box.bottom).attr("fill", "transparent");
    const span = inside.append("g").selectAll("rect").data(rows).join("rect").attr("class", "mark")
      .attr("y", (i) => y(String(column(block.lane).at(i)))).attr("height", y.bandwidth())
      .attr("fill", (i) => colour(index_of(i)))
      .attr("stroke", "var(--panel)").attr("stroke-width", 0.5);
    explain(span, (i) => column(block.lane).heading + " " + column(block.lane).at(i) + "\n" +
      column(block.label).at(i) + "\n" + d3.format(".6~g")(column(block.begin).at(i)) + " to " +
      d3.format(".6~g")(column(block.end).at(i)) + " " + column(block.end).unit);
    const texts = inside.append("g").attr("pointer-events", "none");
    const axis = svg.append("g").attr("transform", "translate(0," + box.bottom + ")");
    svg.append("g").selectAll("text").data(lanes).join("text").attr("x", box.left - 6)
      .attr("text-anchor", "end").attr("y", (l) => y(l) + y.bandwidth() / 2 + 4).text((l) => l);
    svg.append("text").attr("class", "faint").attr("x", box.right).attr("y", box.bottom + 34)
      .attr("text-anchor", "end").text(block.axis);
    function render(transform) {
      const x = transform.rescaleX(full);
      span.attr("x", (i) => x(column(block.begin).at(i)))
        .attr("width", (i) => Math.max(0.5, x(column(block.end).at(i)) -
          x(column(block.begin).at(i))));
      const wide = rows.filter((i) => {
        const from = x(column(block.begin).at(i)), to = x(column(block.end).at(i));
        return to > box.left && from < box.right &&
          to - from > 7 * String(column(block.label).at(i)).length;
      });
      texts.selectAll("text").data(wide, (i) => i).join("text")
        .style("fill", (i) => ink_on(index_of(i)))
        .attr("text-anchor", "middle").attr("x", (i) => (x(column(block.begin).at(i)) +
          x(column(block.end).at(i))) / 2)
        .attr("y", (i) => y(String(column(block.lane).at(i))) + y.bandwidth() / 2 + 4)
        .text((i) => column(block.label).at(i));
      axis.call(d3.axisBottom(x).ticks(Math.min(8, width / 80)));
    }
    const zoom = d3.zoom().scaleExtent([1, 5000]).extent([[box.left, 0], [box.right, box.bottom]])
      .translateExtent([[box.left, 0], [box.right, box.bottom]])
      .filter((event) => event.type !== "wheel" || event.ctrlKey || document.activeElement ===
        svg.node())
      .on("zoom", (event) => render(event.transform));
    svg.call(zoom);
    const by = (factor) => svg.call(zoom.scaleBy, factor);
    const along = (share) => svg.call(zoom.translateBy, share * (box.right - box.left) /
      d3.zoomTransform(svg.node()).k, 0);
    bar.append("button").text("zoom in (+)").on("click", () => by(2));
    bar.append("button").text("zoom out (-)").on("click", () => by(0.5));
    bar.append("button").text("all (0)").on("click", () => svg.call(zoom.transform,
      d3.zoomIdentity));
    bar.append("span").text("drag to move; wheel zooms once the picture is clicked");
    svg.on("keydown", (event) => {
      const act = { "+": () => by(2), "=": () => by(2), "-": () => by(0.5), "0": () =>
        svg.call(zoom.transform, d3.zoomIdentity), ArrowLeft: () => along(0.2), ArrowRight: () =>
        along(-0.2) }[event.key];
      if (act) { act(); event.preventDefault(); }
    });
    // Opens on the first passes: thousands of them in one picture are only stripes.
    render(d3.zoomIdentity);
    if (block.first > begin && block.first < end) {
      const k = Math.min(5000, (end - begin) / (block.first - begin));
      svg.call(zoom.transform, d3.zoomIdentity.translate(box.left * (1 - k), 0).scale(k));
      bar.append("span").attr("class", "opened").text("shown: the first " +
        d3.format(".3~s")(block.first) + "s, the warm-up and passes of the steady state; all (0) " +
        "shows the rest");
    }
  };

  // ---- filters, then the blocks ----
  for (const key of controls ? model.filters : []) {
    const with_key = [...tables.values()].filter((t) => t.block.searched && column_of(t, key));
    const words = [...new Set(with_key.flatMap((t) => d3.range(t.block.rows).map(column_of(t, key).at)))]
      .filter((v) => v !== null);
    if (words.length < 2) continue;
    select_of(controls, column_of(with_key[0], key).heading, [["", "all"], ...words.sort(compare).map((v) =>
      [String(v), String(v)])], "", (value) => {
      if (value === "") chosen_words.delete(key); else chosen_words.set(key, value);
      refilter();
    });
  }
  for (const block of model.blocks) {
    const section = at.append("section").attr("class", block.kind);
    draw[block.kind](section, block);
    const table = tables.get(block.kind === "table" ? block.name : block.table);
    if (block.kind !== "note")
      downloads(section, block.title, table ? () => rows_of(table, table.rows) : null);
  }
  at.selectAll("h2, th button").attr("title", function () { return tip(this.textContent); });
}

// ---- the page around it ----
function turn() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" :
    window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}
document.addEventListener("keydown", (event) => {
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey)
    return;
  if (event.key === "d") turn();
  if (event.key === "/") {
    const first = document.querySelector("#search, thead input");
    if (first) { first.focus(); event.preventDefault(); }
  }
});
window.addEventListener("beforeprint", () => printed_tables.forEach((render) => render("paper")));
window.addEventListener("afterprint", () => printed_tables.forEach((render) => render()));

const page_data = JSON.parse(document.getElementById("data").textContent);
if (page_data.blocks) {
  d3.select("header h1").text(page_data.title);
  d3.select("header p").text(page_data.subtitle);
  d3.select("footer").text("rehearse " + page_data.version + ". Keys: Tab moves between charts and " +
    "controls, arrows inside of a heat map or a timeline, + and - zoom, / goes to the first " +
    "filter, d changes between light and dark.");
  const controls = d3.select("#controls");
  view(page_data, d3.select("#blocks"), controls);
  controls.append("button").text("light / dark").on("click", turn);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

// live.js — the page of `rehearse serve`: a control for each field of a plan, and the answer of the
// server after each change. page.js draws the charts. The whole state is in the address.
"use strict";
(() => {
  const api = async (path, body) => {
    const headers = token ? { Authorization: "Bearer " + token } : {};
    const how = body === undefined ? { headers } : { method: "POST", headers:
      { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(path, how);
    const json = await response.json();
    return { status: response.status, json };
  };
  const token = new URLSearchParams(location.search).get("token");
  const first_fields = ["model", "cluster", "gpus", "global_batch", "sequence"];
  const second_fields = ["tp", "pp", "cp", "ep", "micro_batch", "virtual_stages", "schedule",
    "recompute", "data_parallel", "precision", "framework"];
  // Fields that hold a name of a list of the server.
  const lists = { model: "models", cluster: "clusters", schedule: "schedules", context: "contexts",
    framework: "frameworks" };
  const usual = { model: "llama-3.1-8b", cluster: "dgx-h100", gpus: "64", global_batch: "256",
    sequence: "8192", tp: "2" };
  const pins_most = 4;
  const charts_pause_ms = 350;
  let fields = [], names = {};
  let settings = new Map();
  let pins = [];      // settings as text, with their answers
  let last = null;    // the last answer: { key, status, json }
  let drawn_charts = "";
  let folder_shown = "";  // name of a folder of results; "": the plan is shown

  const folders = page_data.folders || [];

  // ---- state in the address ----
  const text_of = (map) => new URLSearchParams([...map]).toString();
  const map_of = (text) => new Map(new URLSearchParams(text));
  function read_address() {
    const all = new URLSearchParams(location.hash.slice(1));
    folder_shown = all.get("folder") || "";
    all.delete("folder");
    pins = all.getAll("pin").slice(0, pins_most).map((text) => ({ text, answer: null }));
    all.delete("pin");
    settings = new Map(all);
    if (settings.size === 0) settings = new Map(Object.entries(usual));
  }
  function write_address() {
    const all = new URLSearchParams([...settings]);
    for (const pin of pins) all.append("pin", pin.text);
    if (folder_shown) all.append("folder", folder_shown);
    history.replaceState(null, "", location.pathname + location.search + "#" + all);
  }
  const request_of = (map) => ({ settings: [...map].map(([key, value]) => key + "=" + value) });

  // ---- the frame ----
  d3.select("header h1").text("rehearse");
  d3.select("header p").text("one training step, replayed");
  const bar = d3.select("#controls").attr("class", "row");
  const main = d3.select("#blocks");
  const panel = main.append("div").attr("id", "settings");
  const result = main.append("div").attr("id", "result");
  const folder_place = main.append("div").attr("id", "folder").attr("hidden", "");
  const answer_place = result.append("section").attr("id", "answer").attr("aria-live", "polite");
  const fixes_place = result.append("section").attr("id", "fixes").attr("hidden", "");
  const compare_place = result.append("section").attr("id", "compare").attr("hidden", "");
  const search_place = result.append("section").attr("id", "find");
  const assumed_place = result.append("section").attr("id", "assumed");
  const dropped_place = result.append("div").attr("id", "dropped");
  const charts_place = result.append("div").attr("id", "charts");
  const said = bar.append("span").attr("role", "status").attr("id", "said");
  const say = (text) => said.text(text);
  const button = (place, text, act, title) => place.append("button").attr("type", "button").text(text)
    .attr("title", title || null).on("click", act);

  // ---- controls, generated from the table of fields ----
  function kind_of(field) {
    if (lists[field.name]) return { options: names[lists[field.name]].map((one) => one.name) };
    if (field.type === "true|false") return { options: ["true", "false"] };
    if (/^[\w.]+(\|[\w.]+)+$/.test(field.type)) return { options: field.type.split("|") };
    const number = /^(integer|number)(?: from (\S+))?(?: to (\S+))?$/.exec(field.type);
    if (number) return { number: true, whole: number[1] === "integer", min: number[2], max: number[3] };
    return {};
  }
  const help_of = (field) => field.line + (field.type ? "\n" + field.type : "") +
    (field.unit ? "\nunit: " + field.unit : "") + (field.default ? "\ndefault: " + field.default : "");
  function set(key, value) {
    if (value === "" || value === null) settings.delete(key); else settings.set(key, String(value));
    if (key === "model")  // another network: its description from a file is gone
      for (const other of [...settings.keys()])
        if (other.startsWith("architecture.")) settings.delete(other);
    show_values();
    changed();
  }
  function control(place, field) {
    const kind = kind_of(field);
    const row = place.append("div").attr("class", "field").attr("data-key", field.name)
      .attr("title", help_of(field));
    const id = "f-" + field.name.replaceAll(".", "-");
    const label = row.append("label").attr("for", id).text(field.name.replaceAll("_", " "));
    if (field.unit) label.append("small").text(" " + field.unit);
    const value = row.append("div").attr("class", "value");
    if (kind.options) {
      const select = value.append("select").attr("id", id)
        .on("change", (event) => set(field.name, event.target.value));
      select.append("option").attr("value", "").text(field.default ? "default: " + field.default : "-");
      for (const one of kind.options) select.append("option").attr("value", one).text(one);
    } else {
      const input = value.append("input").attr("id", id).attr("autocomplete", "off")
        .attr("placeholder", field.default || "").attr("type", kind.number ? "number" : "text")
        .on("change", (event) => set(field.name, event.target.value.trim()));
      if (!kind.number) return;
      input.attr("min", kind.min).attr("max", kind.max).attr("step", kind.whole ? 1 : "any");
      if (!kind.whole) return;
      const by = (factor) => () => {
        const now = Number(settings.get(field.name) || field.default) || 1;
        const next = Math.min(Number(kind.max || Infinity), Math.max(Number(kind.min || 1),
          Math.round(now * factor)));
        set(field.name, next);
      };
      button(value, "\u00f72", by(0.5)).attr("aria-label", field.name + " halved");
      button(value, "\u00d72", by(2)).attr("aria-label", field.name + " doubled");
    }
  }
  function show_values() {
    panel.selectAll(".field").each(function () {
      const key = this.dataset.key;
      const value = settings.get(key) || "";
      const node = this.querySelector("input, select");
      this.classList.toggle("set", value !== "");
      if (node.tagName === "SELECT" && value && ![...node.options].some((o) => o.value === value))
        d3.select(node).append("option").attr("value", value).text(value);
      if (document.activeElement !== node || node.value !== value) node.value = value;
    });
  }
  function build_controls() {
    panel.selectAll("*").remove();
    const by_name = new Map(fields.map((field) => [field.name, field]));
    const group = (title, keys) => {
      const set_of = panel.append("fieldset");
      set_of.append("legend").text(title);
      for (const key of keys) if (by_name.has(key)) control(set_of, by_name.get(key));
      return set_of;
    };
    group("Job", first_fields);
    group("Plan", second_fields);
    const usual_keys = new Set([...first_fields, ...second_fields]);
    const rest = fields.filter((field) => !usual_keys.has(field.name) && field.type !== "block" &&
      !field.type.startsWith("list of"));
    const others = panel.append("fieldset");
    others.append("legend").text("All settings");
    const search = others.append("input").attr("id", "search").attr("type", "search")
      .attr("aria-label", "find a setting").attr("placeholder", "find one of " + rest.length +
        " settings  ( / )");
    const list = others.append("div");
    const show = () => {
      const words = search.property("value").toLowerCase().split(/\s+/).filter((word) => word);
      const shown = rest.filter((field) => settings.has(field.name) || (words.length > 0 &&
        words.every((word) => (field.name + " " + field.line + " " + field.synonyms + " " +
          field.megatron_lm).toLowerCase().includes(word))));
      list.selectAll("*").remove();
      for (const field of shown.slice(0, 40)) control(list, field);
      show_values();
    };
    search.on("input", show);
    show();
    redraw_rest = show;
  }
  let redraw_rest = () => {};

  // ---- asking: one request at a time, then the newest state ----
  let asking = false, again = false;
  async function changed() {
    write_address();
    if (asking) { again = true; return; }
    asking = true;
    do {
      again = false;
      answer_place.classed("busy", true);
      const key = text_of(settings);
      const began = performance.now();
      try {
        const { status, json } = await api("/api/run", request_of(settings));
        last = { key, status, json };
        show_answer();
        document.documentElement.dataset.answered = key;
        document.documentElement.dataset.answerMs = String(Math.round(performance.now() - began));
      } catch (error) {
        say("the server does not answer (" + error.message + ")");
      }
      answer_place.classed("busy", false);
    } while (again);
    asking = false;
    later();
  }
  let waiting = 0;
  function later() {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      if (asking || !last) return;
      await show_fixes();
      await show_charts();
    }, charts_pause_ms);
  }

  // ---- the answer ----
  const gib = (bytes) => bytes / 2 ** 30;
  const seconds = (s) => s >= 100 ? s.toFixed(1) + " s" : s >= 1 ? s.toFixed(2) + " s" :
    (1000 * s).toFixed(1) + " ms";
  const percent = (share) => (100 * share).toFixed(1) + " %";
  const whole = d3.format(",.0f");
  const colour = (index) => "var(--g" + (index % 10) + ")";
  const worst = (json) => {
    const classes = json.result.rank_classes.filter((c) => c.peak_reserved_bytes !== null);
    return d3.greatest(classes, (c) => c.peak_reserved_bytes / c.capacity_bytes);
  };
  function outcome_of(answer) {
    if (!answer || answer.status !== 200) return "bad";
    return answer.json.result.fits ? "fits" : "oom";
  }
  const verdicts = {
    fits: ["\u25cf", "fits"], oom: ["\u2716", "out of memory"], bad: ["!", "this plan cannot run"],
  };
  function oom_text(json) {
    const event = json.result.rank_classes[json.result.first_out_of_memory].out_of_memory;
    const place = event.place;
    return "stage " + event.stage + ", step " + place.step + ", microbatch " + place.microbatch + ", " +
      place.pass + (place.layer >= 0 ? " of layer " + place.layer : "") + " (" + place.block + "): " +
      place.tensor + " asked for " + gib(event.requested_bytes).toFixed(2) + " GiB, " +
      gib(event.device_free_bytes).toFixed(2) + " GiB were free" +
      (event.fragmentation_alone ? "; fragmentation alone is the cause" : "");
  }
  function card(place, value, name, title) {
    const one = place.append("div").attr("class", "card").attr("title", title || null);
    one.append("b").text(value);
    one.append("span").text(name);
    return one;
  }
  function show_answer() {
    const place = answer_place;
    const outcome = outcome_of(last);
    place.selectAll("*").remove();
    if (fixed_key !== last.key) {  // the changes of the plan before stay in place until the new ones are known
      fixed_key = "";
      delete document.documentElement.dataset.fixed;
      fixes_place.classed("busy", true);
    }
    const line = place.append("p").attr("class", "verdict " + outcome).attr("id", "verdict");
    line.append("i").attr("aria-hidden", "true").text(verdicts[outcome][0]);
    line.append("span").text(verdicts[outcome][1]);
    panel.selectAll(".field").classed("wrong", false);
    if (outcome === "bad") return show_problems(place);
    const r = last.json.result, memory = worst(last.json);
    if (r.verdict.tight) line.append("span").attr("class", "worse").text("tight: " + r.verdict.hangs_on);
    place.append("p").attr("class", "why").text(outcome === "oom" ? oom_text(last.json) : r.limit);
    const cards = place.append("div").attr("class", "cards");
    if (outcome === "fits") {
      const interval = r.interval_90 && r.interval_90.step_time_s;
      card(cards, seconds(r.step_time_s), interval ? "step; 90 %: " + seconds(interval.lo90) + " to " +
        seconds(interval.hi90) : "step", interval ? interval.runs + " runs of " + interval.sources +
        " sources; " + interval.situation : "").attr("id", "step");
      card(cards, whole(r.tokens_s_gpu), "tokens/s per GPU");
      card(cards, percent(r.mfu.fraction), "MFU (" + r.mfu.convention + ")");
      card(cards, percent(r.bubble), "pipeline bubble");
    }
    if (memory) card(cards, gib(memory.peak_reserved_bytes).toFixed(1) + " of " +
      gib(memory.capacity_bytes).toFixed(1) + " GiB", outcome === "oom" ?
      "would be reserved, fullest GPU" : "reserved, fullest GPU").attr("id", "memory");
    draw_memory(place, r);
    if (outcome === "fits") draw_time(place, r);
    show_actions(place);
    show_compare();
    show_assumed();
  }
  function show_problems(place) {
    const json = last.json;
    const problems = json.result && json.result.problems || [];
    const list = place.append("ul").attr("class", "problems");
    for (const one of problems) {
      list.append("li").text((one.where ? one.where + ": " : "") + one.message);
      for (const key of settings.keys())
        if ((one.where + " " + one.message).includes(key))
          panel.selectAll(".field").filter(function () { return this.dataset.key === key; })
            .classed("wrong", true);
    }
    fixes_place.attr("hidden", "");
    charts_place.selectAll("*").remove();
    drawn_charts = "";
  }
  // The fullest rank class of each stage.
  function stages_of(r) {
    const placed = r.rank_classes.filter((c) => c.peak_reserved_bytes !== null);
    return d3.groups(placed, (c) => c.stage).map(([, all]) =>
      d3.greatest(all, (c) => c.peak_reserved_bytes));
  }
  const memory_parts = (c) => [...Object.entries(c.peak_held_bytes)
    .map(([key, bytes]) => [key.replaceAll("_", " "), bytes]),
  ["cached, not allocated", Math.max(0, c.peak_reserved_bytes - c.peak_allocated_bytes)]];
  const stages_most = 24;
  // Bars of stacked parts on one axis, with a rule at a capacity.
  function bars(around, title, rows, unit, digits, rule) {
    const place = around.append("div").attr("class", "bars");
    place.append("h2").text(title);
    const parts = [...new Set(rows.flatMap((row) => row.parts.filter(([, v]) => v > 0)
      .map(([name]) => name)))];
    const wide = Math.max(260, place.node().clientWidth - 50) || 800;
    const left = Math.min(wide / 3, 18 + 7 * d3.max(rows, (row) => row.name.length));
    const step = rows.length > 12 ? 16 : 26;
    const height = 8 + step * rows.length + 26;
    const end = d3.max(rows, (row) => d3.sum(row.parts, ([, v]) => v));
    const x = d3.scaleLinear([0, Math.max(end, rule ? 1.04 * rule.at : 0)], [left, wide - 70]);
    const svg = place.append("svg").attr("viewBox", "0 0 " + wide + " " + height).attr("role", "img")
      .attr("aria-label", title).style("font-size", "12px");
    rows.forEach((row, i) => {
      let from = 0;
      const y = 6 + step * i;
      for (const [name, value] of row.parts) {
        if (!(value > 0)) continue;
        svg.append("rect").attr("x", x(from)).attr("y", y).attr("height", step - 5)
          .attr("width", Math.max(0.5, x(from + value) - x(from)))
          .attr("fill", name === "cached, not allocated" ? "var(--line)" : colour(parts.indexOf(name)))
          .append("title").text(row.name + "\n" + name + ": " + value.toFixed(digits) + " " + unit);
        from += value;
      }
      svg.append("text").attr("x", left - 6).attr("y", y + step / 2 + 2).attr("text-anchor", "end")
        .text(row.name);
      svg.append("text").attr("class", rule && row.over ? "rule-name" : "faint").attr("x", x(from) + 5)
        .attr("y", y + step / 2 + 2).text(row.note || from.toFixed(digits));
    });
    svg.append("g").attr("transform", "translate(0," + (height - 24) + ")").call(d3.axisBottom(x)
      .ticks(Math.max(3, wide / 110)));
    if (rule) {
      svg.append("path").attr("class", "rule").attr("d", "M" + x(rule.at) + ",0V" + (height - 24));
      svg.append("title").text(rule.name + " " + rule.at.toFixed(digits) + " " + unit);
    }
    const legend = place.append("div").attr("class", "legend");
    for (const name of parts) {
      const one = legend.append("span");
      one.append("i").attr("class", "swatch").style("background", name === "cached, not allocated" ?
        "var(--line)" : colour(parts.indexOf(name)));
      const sum = rows.length === 1 ? rows[0].parts.find(([n]) => n === name)[1] : null;
      one.append("span").text(name + (sum === null ? "" : " " + sum.toFixed(digits) + " " + unit));
    }
    if (rule) legend.append("span").text("dashed: " + rule.name + " " + rule.at.toFixed(digits) + " " +
      unit);
    downloads(place, title, () => [["name", ...parts.map((name) => name + " [" + unit + "]")],
      ...rows.map((row) => [row.name, ...parts.map((name) =>
        (row.parts.find(([n]) => n === name) || ["", 0])[1])])]);
  }
  function draw_memory(place, r) {
    let all = stages_of(r);
    if (all.length === 0) return;
    const stages = all.length;
    if (stages > stages_most)
      all = d3.sort(all, (c) => -c.peak_reserved_bytes).slice(0, stages_most);
    bars(place, "Memory at the peak, fullest GPU of each stage" + (stages > stages_most ?
      " (the " + stages_most + " fullest of " + stages + ")" : "") + " [GiB]", all.map((c) => ({
      name: "stage " + c.stage,
      parts: memory_parts(c).map(([name, bytes]) => [name, gib(bytes)]),
      over: c.out_of_memory !== null,
      note: gib(c.peak_reserved_bytes).toFixed(1) + (c.out_of_memory !== null ? " \u2716" : ""),
    })), "GiB", 1, { at: gib(all[0].capacity_bytes), name: "capacity" });
  }
  const time_parts = (r) => r.step_accounts.filter((row) => row.account !== "step")
    .map((row) => [row.account, row.seconds]);
  function draw_time(place, r) {
    bars(place, "Where the step's time goes, mean of the ranks [s]", [{ name: "step",
      parts: time_parts(r), note: seconds(r.step_time_s) }], "s", 3);
  }

  // ---- actions ----
  async function copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      say(done);
    } catch (error) {
      say("the browser refused to copy; the address bar holds the link");
    }
  }
  function textproto() {
    const by_name = new Map(fields.map((field) => [field.name, field]));
    const blocks = new Map();
    for (const [key, value] of settings) {
      const field = by_name.get(key) || { type: "text" };
      const bare = field.type === "true|false" || /^(integer|number)/.test(field.type) ||
        /^[\w.]+(\|[\w.]+)+$/.test(field.type);
      const dot = key.indexOf(".");
      const block = dot < 0 ? "" : key.slice(0, dot);
      if (!blocks.has(block)) blocks.set(block, []);
      blocks.get(block).push(key.slice(dot + 1) + ": " + (bare ? value : JSON.stringify(value)));
    }
    let text = "# A plan of rehearse: rehearse run FILE\n";
    for (const [block, lines] of blocks)
      text += block === "" ? lines.join("\n") + "\n" : block + " {\n  " + lines.join("\n  ") + "\n}\n";
    return text;
  }
  function stage_csv(r) {
    const keys = ["stage", "cp_rank", "ranks", "layers", "parameters", "capacity_bytes",
      "static_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "allocation_retries", "busy_ps"];
    return [keys.join(","), ...r.rank_classes.map((c) => keys.map((key) => c[key] === null ? "" :
      c[key]).join(","))].join("\n") + "\n";
  }
  async function launch_files() {
    const { status, json } = await api("/api/launch", { ...request_of(settings) });
    if (status !== 200) return say(json.result.problems.map((p) => p.message).join("; "));
    const written = json.filter((one) => one.text);
    if (written.length === 0) return say(json.map((one) => one.left).join("; "));
    answer_place.select("#launches").remove();
    const place = answer_place.append("div").attr("id", "launches");
    for (const one of json) {
      const row = place.append("details").attr("open", written[0] === one ? "" : null);
      row.append("summary").text(one.program + (one.text ? ": " + one.file : ": not possible"));
      if (one.left) row.append("p").attr("class", "faint").text(one.left);
      if (!one.text) continue;
      button(row, "download " + one.file, () => save_as(one.file, one.text));
      row.append("pre").attr("class", "scroll").attr("tabindex", 0).style("margin", "0.3rem 0")
        .style("padding", "0.4rem").text(one.text);
    }
  }
  function show_actions(place) {
    const row = place.append("div").attr("class", "row").style("margin-top", "0.8rem");
    button(row, "pin to compare", pin).attr("id", "pin").attr("disabled", pins.length >= pins_most ?
      "" : null);
    button(row, "copy link", () => copy(location.href, "link copied")).attr("id", "link");
    button(row, "launch script", launch_files, "flags of Megatron-LM and files of other frameworks");
    button(row, "textproto", () => save_as("plan.textproto", textproto()), "a plan file for the command line");
    button(row, "JSON", () => save_as("run.json", JSON.stringify(last.json, null, 2)));
    button(row, "CSV", () => save_as("stages.csv", stage_csv(last.json.result)));
  }

  // ---- fixes ----
  let fixed_key = "";
  async function show_fixes() {
    const outcome = outcome_of(last);
    if (outcome === "bad") { fixes_place.attr("hidden", ""); fixed_key = ""; return; }
    if (fixed_key === last.key) return;
    const key = last.key;
    const { status, json } = await api("/api/fixes", request_of(settings));
    if (!last || last.key !== key || status !== 200) return;
    fixes_place.attr("hidden", null).classed("busy", false).selectAll("*").remove();
    fixes_place.append("h2").text(outcome === "oom" ? "Single changes that would fit" :
      "What it loses, and single changes that help");
    const state = fixes_place.append("p").attr("class", "why");
    fixed_key = key;
    document.documentElement.dataset.fixed = key;
    const r = json.result;
    const changes = outcome === "oom" ?
      (r.single_changes || []).filter((one) => one.fits).map((one) => [one.change, cost_of(one)]) :
      (r.improvements || []).map((one) => [one.change, gain_of(one)]);
    const losses = fixes_place.append("ul").attr("class", "differences").attr("id", "losses");
    for (const one of r.losses || []) losses.append("li").text(one.loss);
    state.text(changes.length > 0 ? "Each is replayed; a click takes it over." : outcome === "oom" ?
      "None of the single changes fits; the search below tries all plans." :
      "No single change makes it faster or smaller; the search below tries all plans.");
    const list = fixes_place.append("div").attr("class", "row");
    for (const [change, effect] of changes)
      button(list, change + "  (" + effect + ")", () => take(change.split(" ")), "take this change over");
  }
  const signed = (value, digits, unit) => (value > 0 ? "+" : "") + value.toFixed(digits) + " " + unit;
  const cost_of = (one) => "step " + signed(100 * one.cost_fraction, 1, "%");
  const gain_of = (one) => [one.gain_fraction > 0.0005 ? "step " + signed(-100 * one.gain_fraction, 1, "%") :
    "", Math.abs(one.more_reserved_bytes) > 5e7 ? signed(gib(one.more_reserved_bytes), 1, "GiB") : ""]
    .filter((text) => text).join(", ") || "the same";
  function take(words) {
    for (const word of words) {
      const at = word.indexOf("=");
      if (at > 0) settings.set(word.slice(0, at), word.slice(at + 1));
    }
    redraw_rest();
    show_values();
    changed();
    window.scrollTo({ top: 0 });
  }

  // ---- compare ----
  function pin() {
    const text = text_of(settings);
    if (pins.length >= pins_most || pins.some((one) => one.text === text)) return;
    pins.push({ text, answer: last && last.key === text ? last : null });
    write_address();
    show_compare();
  }
  const difference = (text, base) => {
    const a = map_of(base), b = map_of(text);
    const keys = [...new Set([...a.keys(), ...b.keys()])].filter((key) => a.get(key) !== b.get(key));
    return keys.map((key) => key + "=" + (b.get(key) || "default")).join(" ") || "the same settings";
  };
  async function load_pins() {
    for (const one of pins) {
      if (one.answer) continue;
      const { status, json } = await api("/api/run", request_of(map_of(one.text)));
      one.answer = { key: one.text, status, json };
    }
    show_compare();
  }
  // What makes the difference, in words: "step +0.31 s: ...; reserved -27.7 GiB: ...".
  function difference_in_words(base, one) {
    const largest = (before, now, least) => {
      const old = new Map(before);
      return [...now.map(([name, value]) => [name, value - (old.get(name) || 0)]),
        ...before.filter(([name]) => !now.some(([n]) => n === name)).map(([name, value]) => [name, -value])]
        .filter(([, value]) => Math.abs(value) > least)
        .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 3);
    };
    const words = [];
    const told = (name, change, digits, unit, before, now) => {
      const parts = largest(before, now, Math.max(0.02 * Math.abs(change), 0.5 * 10 ** -digits));
      words.push(Math.abs(change) < 0.5 * 10 ** -digits ? name + " the same" :
        name + " " + signed(change, digits, unit) + (parts.length ? ": " + parts.map(([part, value]) =>
          part + " " + signed(value, digits, unit)).join(", ") : ""));
    };
    const a = base.json.result, b = one.json.result;
    if (outcome_of(base) === "fits" && outcome_of(one) === "fits")
      told("step", b.step_time_s - a.step_time_s, 3, "s", time_parts(a), time_parts(b));
    const full = worst(base.json), now = worst(one.json);
    if (full && now)
      told("reserved", gib(now.peak_reserved_bytes - full.peak_reserved_bytes), 1, "GiB",
        memory_parts(full).map(([n, v]) => [n, gib(v)]), memory_parts(now).map(([n, v]) => [n, gib(v)]));
    return words.join("; ");
  }
  function show_compare() {
    compare_place.attr("hidden", pins.length === 0 ? "" : null).selectAll("*").remove();
    if (pins.length === 0) return;
    const now = { text: text_of(settings), answer: last, now: true };
    const all = [...pins, ...(pins.some((one) => one.text === now.text) ? [] : [now])]
      .filter((one) => one.answer);
    compare_place.append("h2").text("Compare");
    if (all.length === 0) return;
    const base = all[0];
    const label = (one, i) => one.now ? "now" : String.fromCharCode(65 + i);
    const scroll = compare_place.append("div").attr("class", "scroll").attr("tabindex", 0);
    const table = scroll.append("table");
    const head = table.append("thead").append("tr");
    for (const [text, left] of [["plan", true], ["difference to A", true], ["verdict", true],
      ["step", false], ["change", false], ["tokens/s/GPU", false], ["reserved GiB", false],
      ["", true]]) head.append("th").attr("scope", "col").classed("left", left).text(text);
    const body = table.append("tbody");
    all.forEach((one, i) => {
      const outcome = outcome_of(one.answer), r = one.answer.json.result;
      const row = body.append("tr");
      const cell = (text, left, name) => row.append("td").classed("left", left).attr("class",
        (left ? "left " : "") + (name || "")).attr("title", text).text(text);
      cell(label(one, i), true);
      cell(one === base ? [...map_of(base.text)].map(([k, v]) => k + "=" + v).join(" ") :
        difference(one.text, base.text), true);
      cell(verdicts[outcome].join(" "), true, outcome === "fits" ? "better" : "worse");
      cell(outcome === "fits" ? seconds(r.step_time_s) : "", false);
      const change = outcome === "fits" && outcome_of(base.answer) === "fits" ?
        r.step_time_s / base.answer.json.result.step_time_s - 1 : null;
      cell(change === null || one === base ? "" : (change > 0 ? "+" : "") + percent(change), false,
        change < -0.0005 ? "better" : change > 0.0005 ? "worse" : "same");
      cell(outcome === "fits" ? whole(r.tokens_s_gpu) : "", false);
      const memory = outcome === "bad" ? null : worst(one.answer.json);
      cell(memory ? gib(memory.peak_reserved_bytes).toFixed(1) : "", false);
      const last_cell = row.append("td").attr("class", "left");
      if (one.now) return;
      button(last_cell, "open", () => { settings = map_of(one.text); redraw_rest(); show_values();
        changed(); });
      button(last_cell, "unpin", () => { pins = pins.filter((p) => p !== one); write_address();
        show_compare(); show_pin(); });
    });
    const told = compare_place.append("ul").attr("class", "differences");
    all.forEach((one, i) => {
      if (one === base || outcome_of(one.answer) === "bad" || outcome_of(base.answer) === "bad") return;
      told.append("li").text(label(one, i) + " against A: " + difference_in_words(base.answer, one.answer));
    });
    const fitting = all.filter((one) => outcome_of(one.answer) === "fits");
    const name = (one) => label(one, all.indexOf(one));
    if (fitting.length > 0)
      bars(compare_place, "Step time [s]", fitting.map((one) => ({ name: name(one),
        parts: time_parts(one.answer.json.result), note: seconds(one.answer.json.result.step_time_s) })),
      "s", 3);
    const placed = all.filter((one) => outcome_of(one.answer) !== "bad" && worst(one.answer.json));
    if (placed.length > 0)
      bars(compare_place, "Memory at the peak, fullest GPU [GiB]", placed.map((one) => {
        const c = worst(one.answer.json);
        return { name: name(one), parts: memory_parts(c).map(([key, bytes]) => [key, gib(bytes)]),
          over: c.out_of_memory !== null, note: gib(c.peak_reserved_bytes).toFixed(1) +
            (c.out_of_memory !== null ? " \u2716" : "") };
      }), "GiB", 1, { at: gib(worst(placed[0].answer.json).capacity_bytes), name: "capacity of " +
        name(placed[0]) });
    show_pin();
  }
  const show_pin = () => d3.select("#pin").attr("disabled", pins.length >= pins_most ? "" : null);

  // ---- what the program assumed ----
  function show_assumed() {
    const before = assumed_place.select("details").node(), open = before && before.open;
    assumed_place.selectAll("*").remove();
    const details = assumed_place.append("details").property("open", Boolean(open));
    const plan = last.json.result.plan, rows = [];
    const flatten = (object, before) => {
      for (const [key, value] of Object.entries(object)) {
        const name = before + key;
        if (value !== null && typeof value === "object" && !Array.isArray(value))
          flatten(value, name + ".");
        else if (!settings.has(name)) rows.push([name, JSON.stringify(value)]);
      }
    };
    flatten(plan, "");
    details.append("summary").text("Assumed: " + rows.length + " settings that you left open" +
      (settings.has("framework") ? ", as " + settings.get("framework") + " has them" : ""));
    const framework = (names.frameworks || []).find((one) => one.name === settings.get("framework"));
    if (framework) details.append("p").attr("class", "faint").text(framework.summary);
    const table = details.append("div").attr("class", "scroll").attr("tabindex", 0).append("table");
    for (const [key, value] of rows) {
      const row = table.append("tr");
      row.append("td").attr("class", "left").text(key);
      row.append("td").attr("class", "left").text(value);
    }
  }

  // ---- charts of the replay ----
  async function show_charts() {
    if (outcome_of(last) === "bad" || drawn_charts === last.key) return;
    const key = last.key;
    charts_place.classed("busy", true);
    const { status, json } = await api("/api/charts", request_of(settings));
    charts_place.classed("busy", false);
    if (!last || last.key !== key || status !== 200) return;
    drawn_charts = key;
    charts_place.selectAll("*").remove();
    json.blocks = json.blocks.filter((block) => block.kind !== "note");
    view(json, charts_place, null);
    document.documentElement.dataset.charted = key;
  }

  // ---- search ----
  let searching = null;
  function build_search() {
    search_place.append("h2").text("Find the best plan");
    search_place.append("p").attr("class", "why").text("Searches all plans of this model, cluster, " +
      "number of GPUs, batch and sequence. Settings of the job stay, those of the plan are varied.");
    const row = search_place.append("div").attr("class", "row");
    button(row, "search", start_search).attr("id", "start").classed("main", true);
    button(row, "stop", () => searching && api("/api/search/stop", { job: searching })).attr("id", "stop")
      .attr("disabled", "");
    search_place.append("div").attr("id", "progress").attr("role", "status");
    search_place.append("div").attr("id", "found");
  }
  async function start_search() {
    const get = (key) => settings.get(key) || "";
    const { status, json } = await api("/api/search", { model: get("model"), cluster: get("cluster"),
      gpus: get("gpus"), batch: get("global_batch"), sequence: get("sequence"),
      settings: ["precision", "framework"].filter((key) => settings.has(key))
        .map((key) => key + "=" + get(key)) });
    const place = search_place.select("#progress");
    place.selectAll("*").remove();
    search_place.select("#found").selectAll("*").remove();
    if (status !== 200) {
      place.append("p").text(json.result.problems.map((p) => p.where + " " + p.message).join("; "));
      return;
    }
    searching = json.job;
    search_place.select("#start").attr("disabled", "");
    search_place.select("#stop").attr("disabled", null);
    const bar_of = place.append("progress").attr("aria-label", "plans that are decided");
    const text = place.append("p").text("...");
    const growing = place.append("div").attr("id", "growing");
    let drawn = 0;
    for (;;) {
      const { status: code, json: state } = await api("/api/search/state", { job: searching });
      if (code !== 200) { text.text("the search is lost"); break; }
      if (state.progress) {
        bar_of.attr("max", state.progress.plans).attr("value", state.progress.decided);
        text.text(whole(state.progress.decided) + " of " + whole(state.progress.plans) + " plans; " +
          state.progress.text);
        // The front as it grows.
        const found = state.progress.found || [];
        if (found.length !== drawn) {
          drawn = found.length;
          growing.selectAll("*").remove();
          draw_front(growing, found, front_of(found));
        }
      }
      if (!state.running) { place.selectAll("*").remove(); show_found(state); break; }
      await new Promise((done) => setTimeout(done, 300));
    }
    searching = null;
    search_place.select("#start").attr("disabled", null);
    search_place.select("#stop").attr("disabled", "");
  }
  function show_found(state) {
    const place = search_place.select("#found");
    place.selectAll("*").remove();
    const json = state.result;
    if (state.status !== 200 || !json.result.plans) {
      place.append("p").text(((json && json.result && json.result.problems) || [])
        .map((p) => p.message).join("; ") || "the search gave no answer");
      return;
    }
    const r = json.result;
    place.append("p").text((r.complete ? "" : "stopped before its end; ") + whole(r.space.plans) +
      " plans: " + whole(r.space.impossible) + " impossible, " + whole(r.space.cut_by_time +
      r.space.cut_by_memory) + " discarded by bounds, " + whole(r.space.replayed) + " replayed");
    if (r.plans.length === 0) return place.append("p").text("no plan fits");
    const columns = [["step", (p) => seconds(p.step_time_s)], ["tokens/s/GPU", (p) =>
      whole(p.tokens_s_gpu)], ["reserved GiB", (p) => p.peak_reserved_gib.toFixed(1)],
    ["of", (p) => p.capacity_gib.toFixed(1)]];
    const list = (title, plans) => {
      place.append("h2").text(title);
      const table = place.append("div").attr("class", "scroll").attr("tabindex", 0).append("table");
      const head = table.append("thead").append("tr");
      head.append("th").attr("class", "left").text("");
      for (const [name] of columns) head.append("th").text(name);
      head.append("th").attr("class", "left").text("plan");
      for (const one of plans) {
        const row = table.append("tr");
        button(row.append("td").attr("class", "left"), "open", () => open_plan(one.settings));
        for (const [, text] of columns) row.append("td").text(text(one));
        row.append("td").attr("class", "left").text(one.settings.split(" ").filter((word) =>
          !/^(model|cluster|gpus|global_batch|sequence)=/.test(word)).join(" "));
      }
    };
    draw_front(place, [...r.plans, ...(r.front || [])], r.front || []);
    list("Best plans", r.plans);
    if (r.front && r.front.length > 1) list("Front: no plan is both faster and smaller", r.front);
  }
  // The plans that no other beats in both time and memory.
  function front_of(plans) {
    let least = Infinity;
    return d3.sort(plans, (p) => p.peak_reserved_gib, (p) => p.step_time_s)
      .filter((p) => p.step_time_s < least && ((least = p.step_time_s), true));
  }
  function draw_front(around, all, front_plans) {
    if (all.length < 2) return;
    const place = around.append("div").attr("class", "front-chart");
    place.append("h2").text("Step time against memory; a click opens a plan");
    const wide = place.node().clientWidth || 800, height = 220;
    const svg = place.append("svg").attr("viewBox", "0 0 " + wide + " " + height).attr("role", "img")
      .attr("aria-label", "step time against memory of the plans found").style("font-size", "12px");
    const x = d3.scaleLinear(d3.extent(all, (p) => p.peak_reserved_gib), [56, wide - 20]).nice();
    const y = d3.scaleLinear(d3.extent(all, (p) => p.step_time_s), [height - 40, 14]).nice();
    svg.append("g").attr("transform", "translate(0," + (height - 34) + ")").call(d3.axisBottom(x).ticks(6));
    svg.append("g").attr("transform", "translate(50,0)").call(d3.axisLeft(y).ticks(5));
    svg.append("text").attr("class", "faint").attr("x", wide - 20).attr("y", height - 4)
      .attr("text-anchor", "end").text("reserved [GiB]");
    svg.append("text").attr("class", "faint").attr("x", 4).attr("y", 10).text("step [s]");
    const front = d3.sort(front_plans, (p) => p.peak_reserved_gib);
    svg.append("path").attr("class", "front").attr("d", d3.line((p) => x(p.peak_reserved_gib),
      (p) => y(p.step_time_s)).curve(d3.curveStepAfter)(front));
    for (const one of all)
      svg.append("circle").attr("cx", x(one.peak_reserved_gib)).attr("cy", y(one.step_time_s))
        .attr("r", 6).attr("fill", "var(--fits)").attr("fill-opacity", 0.75).attr("tabindex", 0)
        .attr("role", "button").style("cursor", "pointer")
        .attr("aria-label", one.settings).on("click", () => open_plan(one.settings))
        .on("keydown", (event) => event.key === "Enter" && open_plan(one.settings))
        .append("title").text(seconds(one.step_time_s) + ", " + one.peak_reserved_gib.toFixed(1) +
          " GiB\n" + one.settings);
    downloads(place, "plans found", () => [["step_time_s", "peak_reserved_gib", "settings"],
      ...all.map((one) => [one.step_time_s, one.peak_reserved_gib, one.settings])]);
  }
  function open_plan(text) {
    const kept = [...settings].filter(([key]) => ["precision", "framework"].includes(key));
    settings = new Map(kept);
    take(text.split(" "));
  }

  // ---- folders of sweeps and searches ----
  async function show_folder() {
    const index = folders.indexOf(folder_shown);
    const shown = index >= 0;
    panel.attr("hidden", shown ? "" : null);
    result.attr("hidden", shown ? "" : null);
    folder_place.attr("hidden", shown ? null : "");
    document.documentElement.classList.toggle("wide", shown);
    d3.selectAll(".folder-button").attr("aria-pressed", function () {
      return String(this.dataset.folder === (shown ? folder_shown : ""));
    });
    if (!shown || folder_place.attr("data-folder") === folder_shown) return;
    folder_place.selectAll("*").remove();
    folder_place.append("p").text("reading " + folder_shown + " ...");
    const { status, json } = await api("/api/folder/" + index);
    folder_place.selectAll("*").remove();
    if (status !== 200) {
      folder_place.append("p").text(json.result.problems.map((p) => p.where + " " + p.message).join("; "));
      return;
    }
    folder_place.attr("data-folder", folder_shown);
    const head = folder_place.append("section");
    head.append("h2").text(json.title);
    head.append("p").attr("class", "why").text(page_data.read_only ? json.subtitle :
      "A click on a cell, a mark or a row opens that point as a plan.");
    const filters = head.append("div").attr("class", "row");
    view(json, folder_place, filters, page_data.read_only ? null : open_point);
    document.documentElement.dataset.folder = folder_shown;
  }
  function open_point(table, row) {
    const column = table.columns.get("settings");
    const text = column && column.at(row);
    if (!text) return say("this folder does not hold the settings of its points; sweep again with " +
      "this version");
    settings = new Map();
    const from = folder_shown;
    folder_shown = "";
    show_folder();
    take(text.split(" "));
    say("a point of " + from + "; the button " + from + " leads back");
  }
  function build_folders() {
    if (folders.length === 0) return;
    const show = (name) => () => { folder_shown = name; write_address(); show_folder();
      if (!name && !last) changed(); };
    const row = d3.select("header").append("nav").attr("class", "row").attr("aria-label", "pages");
    const one = (name, text) => button(row, text, show(name)).attr("class", "folder-button")
      .attr("data-folder", name);
    if (!page_data.read_only) one("", "plan");
    for (const name of folders) one(name, name);
  }

  // ---- dropped files ----
  const text_most = 3_500_000;  // of a file; of a longer log the end is read
  const is_snapshot = (bytes) => bytes[0] === 0x80;  // a pickle
  // A page about a dropped file, until the next one.
  function show_dropped(page) {
    dropped_place.selectAll("*").remove();
    const head = dropped_place.append("section");
    head.append("h2").text(page.title);
    button(head, "close", () => dropped_place.selectAll("*").remove());
    view(page, dropped_place, null);
    dropped_place.node().scrollIntoView();
    document.documentElement.dataset.dropped = page.title;
  }
  async function send_snapshot(bytes) {
    const headers = { "Content-Type": "application/octet-stream" };
    if (token) headers.Authorization = "Bearer " + token;
    const response = await fetch("/api/snapshot", { method: "POST", headers, body: bytes });
    return { status: response.status, json: await response.json() };
  }
  function send_text(name, bytes) {
    let text = new TextDecoder().decode(bytes);
    if (text.length > text_most) text = text.slice(text.indexOf("\n", text.length - text_most) + 1);
    return api("/api/file", { name, text, settings: request_of(settings).settings });
  }
  async function dropped(files) {
    for (const file of files) {
      say("reading " + file.name + " ...");
      const bytes = new Uint8Array(await file.arrayBuffer());
      const { status, json } = is_snapshot(bytes) ? await send_snapshot(bytes) :
        await send_text(file.name, bytes);
      if (status !== 200) {
        say(file.name + ": " + json.result.problems.map((p) => (p.where ? p.where + ": " : "") +
          p.message).join("; "));
        continue;
      }
      if (json.document) {
        say(file.name + " is a " + (json.kind === "log" ? "log of a run" : "memory snapshot"));
        show_dropped(json.document);
        continue;
      }
      if (json.kind === "model") {
        for (const key of [...settings.keys()])
          if (key === "model" || key.startsWith("architecture.")) settings.delete(key);
      } else {
        settings = new Map();
      }
      say(file.name + " is a " + json.kind + (json.notes.length ? "; " + json.notes.length +
        " notes: " + json.notes.join("; ") : ""));
      take(json.settings);
    }
  }
  const drop = d3.select("body").append("div").attr("id", "drop")
    .text("config.json, a launch script, a plan, a log or a memory snapshot");
  document.addEventListener("dragover", (event) => { event.preventDefault(); drop.classed("over", true); });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.classed("over", false); });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classed("over", false);
    dropped([...event.dataTransfer.files]);
  });

  // ---- start ----
  async function start() {
    const picker = bar.append("label").text("open a file ");
    picker.append("input").attr("type", "file").attr("id", "file").attr("aria-label",
      "config.json, launch script, plan, log or memory snapshot").on("change", (event) => dropped([...event.target.files]));
    button(bar, "light / dark", turn);
    const [field_answer, name_answer] = await Promise.all([api("/api/fields"), api("/api/names")]);
    if (field_answer.status !== 200 || name_answer.status !== 200)
      return say("the server refused: " + JSON.stringify(field_answer.json));
    // A name of a cluster's field that a plan has too means the plan's.
    const known = new Set();
    fields = field_answer.json.result.fields.filter((field) => {
      const own = !known.has(field.name) && (field.of === "plan" || field.name.includes("."));
      known.add(field.name);
      return own;
    });
    names = name_answer.json.result;
    read_address();
    if (page_data.read_only && !folder_shown) folder_shown = folders[0] || "";
    build_folders();
    build_controls();
    show_values();
    build_search();
    await show_folder();
    if (!folder_shown) {
      await changed();
      await load_pins();
    }
    d3.select("footer").text("rehearse " + page_data.version + ". Keys: / finds a setting, d changes " +
      "between light and dark. Files can be dropped on the page.");
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }
  window.addEventListener("hashchange", () => { read_address(); redraw_rest(); show_values();
    show_folder(); if (!folder_shown) { changed(); load_pins(); } });
  start();
})();

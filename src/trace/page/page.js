/* The report page. Everything it shows comes from the JSON in #data, which millrace report wrote;
   figures that tests compare carry data-figure and data-value. No library, no network. */
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const [run, other] = data.runs;
  const main = document.getElementById("main");
  const tip = document.getElementById("tip");
  const colours = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
  const opColour = i => `var(${colours[i % colours.length]})`;
  const words = {
    read: "read", fill: "source", sample: "sample", seal: "sealing a batch", wait_read: "waiting for a read",
    wait_work: "without work", wait_batch: "waiting for a batch", deliver: "delivering", consume: "consuming",
    wait_host: "waiting for Python's lock", store_read: "reading the store", store_write: "writing the store",
    store_wait: "waiting for the store", wait_peer: "waiting for another rank", receive: "receiving", send: "sending",
    request_wait: "waiting to be asked for", first_byte: "waiting for the first byte", transfer: "bytes coming in", unpack: "unpacking blocks"
  };

  /* ---- Elements and numbers ---- */
  const el = (name, attributes = {}, ...children) => {
    const svg = ["svg", "rect", "line", "path", "text", "g", "circle", "title"].includes(name);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== undefined && value !== false) node.setAttribute(key, value);
    }
    node.append(...children.filter(c => c !== undefined && c !== null && c !== false));
    return node;
  };
  const figure = (name, value, text) => el("span", {"data-figure": name, "data-value": value}, text);
  const count = n => Math.round(n).toLocaleString("en-US");
  const share = (part, whole) => whole > 0 ? part / whole : 0;
  const many = (n, one, more) => `${count(n)} ${n === 1 ? one : more}`;
  const time = s => {
    if (s === 0) return "0";
    const [value, unit] = s >= 0.9995 ? [s, "s"] : s >= 0.9995e-3 ? [s * 1e3, "ms"] : s >= 0.9995e-6 ? [s * 1e6, "µs"] : [s * 1e9, "ns"];
    return `${value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
  };
  const bytes = b => b >= 1e9 ? `${(b / 1e9).toFixed(2)} GB` : b >= 1e6 ? `${(b / 1e6).toFixed(1)} MB` : b >= 1e3 ? `${(b / 1e3).toFixed(1)} kB` : `${b.toFixed(0)} B`;
  const percent = x => `${(100 * x).toFixed(x < 0.0995 && x > 0 ? 1 : 0)} %`;
  const section = (id, title, about, ...content) =>
    el("section", {id, "aria-labelledby": id + "-title"}, el("h2", {id: id + "-title"}, title), about && el("p", {class: "about"}, about), ...content);

  /* ---- The tip that follows pointer and focus ---- */
  const showTip = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 6)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
  };
  const hideTip = () => { tip.hidden = true; };
  const withTip = (node, text) => {
    node.addEventListener("pointermove", e => showTip(text, e.clientX, e.clientY));
    node.addEventListener("pointerleave", hideTip);
    node.addEventListener("focus", () => { const b = node.getBoundingClientRect(); showTip(text, b.left, b.bottom - 14); });
    node.addEventListener("blur", hideTip);
    return node;
  };
  addEventListener("keydown", e => { if (e.key === "Escape") hideTip(); });

  /* ---- Light and dark ---- */
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = theme => { document.documentElement.dataset.theme = theme; dispatchEvent(new Event("theme")); };
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

  /* ---- Verdict ---- */
  const setup = run.header.setup || {};
  const workerTime = run.seconds * (setup.threads || 1);
  const kind = name => run.kinds[name] || {total: 0, count: 0, mean: 0, p50: 0, p99: 0};
  document.getElementById("run").textContent =
    `${run.trace} · ${many(run.samples, "sample", "samples")} in ${many(run.n_batches, "batch", "batches")} · ${time(run.seconds)} · millrace ${run.header.millrace}`;

  const tile = (name, value, text, label) => el("div", {class: "tile"}, el("b", {}, figure(name, value, text)), el("span", {}, label));
  const drawVerdict = () => {
    const v = run.verdict;
    const tone = {balanced: "--good", consumer: "--good", unknown: "--soft"}[v.bound] || (v.stall > 0.2 ? "--bad" : "--warn");
    const read = kind("read");
    return el("section", {class: "verdict", id: "verdict", style: `--tone: var(${tone})`},
      el("h1", {"data-figure": "verdict", "data-value": v.bound}, v.title),
      el("p", {class: "evidence"}, v.evidence),
      v.change && el("p", {class: "first"}, el("b", {}, "Change first"), el("span", {}, v.change)),
      run.missing && el("p", {class: "note"}, `Not everything is here: ${run.missing}.`),
      run.skipped > 0 && el("p", {class: "note"}, `${count(run.skipped)} bad ${run.skipped === 1 ? "sample was" : "samples were"} skipped; others took the place.`),
      run.damaged > 0 && el("p", {class: "note"}, `${count(run.damaged)} spans are damaged and left out.`),
      el("div", {class: "tiles"},
        tile("rate", v.rate, count(v.rate), "samples per second"),
        tile("stall", v.stall, percent(v.stall), "of the consumer's time spent waiting"),
        tile("busy", share(kind("sample").total, workerTime), percent(Math.min(1, share(kind("sample").total, workerTime))), "of the workers' time on samples"),
        tile("p50", kind("sample").p50, time(kind("sample").p50), "a sample, median"),
        read.count > 0 && tile("read_rate", share(read.bytes_in, run.seconds), bytes(share(read.bytes_in, run.seconds)) + "/s", "read"),
        run.stream && tile("entries", run.stream.entries, count(share(run.stream.entries, run.seconds)) + "/s", "entries of the stream" +
          (run.stream.behind >= 0 ? `, behind by ${count(run.stream.behind)}` : "") + (run.stream.left_out > 0 ? `, ${count(run.stream.left_out)} left out` : "") +
          (run.stream.spilled > 0 ? `, ${count(run.stream.spilled)} spilled` : "") + (run.stream.age_ns >= 0 ? `, the newest ${time(run.stream.age_ns * 1e-9)} old` : "")),
        ...(run.origins || []).filter(o => o.asked > 0).map(o => tile(`origins.${o.name}`, o.bytes, bytes(o.bytes), `from ${o.name}`)),
        tile("spans", run.spans, count(run.spans), run.dropped ? `spans, ${count(run.dropped)} dropped` : "spans, none dropped")));
  };

  /* ---- Functions below the ops: where probes found the threads ---- */
  const functions = run.functions || {note: "", probes: 0, lost: 0, places: []};
  const functionsOf = op => functions.places.find(p => p.op === op);
  const functionName = f => f.object ? `${f.name}, ${f.object}` : f.name;
  const flameBelow = part => {
    const few = 30; /* probes that tell nothing about shares yet */
    if (!part.below || part.below.probes < few) return [{name: "", value: part.value, gap: true}];
    const each = f => ({name: functionName(f), value: part.value * f.probes / part.below.probes, colour: part.colour, faint: true});
    const shown = part.below.functions.slice(0, 8), rest = part.below.probes - shown.reduce((sum, f) => sum + f.probes, 0);
    return [...shown.map(each), ...(rest > 0 ? [each({name: "other functions", probes: rest})] : [])];
  };
  const placeKey = place => place.op >= 0 ? place.op : place.name; /* an op may occur twice */
  const functionRows = place => {
    const colour = place.op >= 0 ? opColour(place.op) : "var(--rest)", most = 8;
    const share = n => [el("span", {class: "bar", style: `background:${colour}; width:${64 * n / functions.probes}px`}), percent(n / functions.probes)];
    const rows = place.functions.slice(0, most).map(f => el("tr", {}, el("td", {}, f.name), el("td", {}, f.object),
      el("td", {}, figure(`function.${placeKey(place)}.${f.name}`, f.probes, count(f.probes))), el("td", {}, percent(f.probes / place.probes)), el("td", {class: "barcell"}, ...share(f.probes))));
    const rest = place.probes - place.functions.slice(0, most).reduce((sum, f) => sum + f.probes, 0);
    return [el("tr", {class: "group"}, el("td", {colspan: 2}, el("span", {class: "swatch", style: `background:${colour}`}), words[place.name] || place.name),
      el("td", {}, figure(`functions.${placeKey(place)}`, place.probes, count(place.probes))), el("td", {}), el("td", {class: "barcell"}, ...share(place.probes))),
    ...rows, rest > 0 && el("tr", {}, el("td", {colspan: 2}, "other functions"), el("td", {}, count(rest)), el("td", {}, percent(rest / place.probes)), el("td", {class: "barcell"}, ...share(rest)))];
  };
  const drawFunctions = () => {
    if (!functions.probes) return functions.note && section("functions", "Functions below the ops", `Not known: ${functions.note}.`);
    const lost = (functions.lost ? ` ${count(functions.lost)} more found no room.` : "") + (functions.note ? ` Note: ${functions.note}.` : "");
    const heads = ["", "object file", "probes", "of it", "of all"];
    return section("functions", "Functions below the ops", `Each worker was looked at once in ${time(functions.period)} of its own CPU time: ${count(functions.probes)} probes.${lost} A function without a name is told by its place in its file.`,
      el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of functions"},
        el("table", {}, el("thead", {}, el("tr", {}, ...heads.map(h => el("th", {scope: "col"}, h)))),
          el("tbody", {}, ...functions.places.filter(p => p.probes >= 0.005 * functions.probes).flatMap(functionRows).filter(Boolean)))));
  };

  /* ---- Flame: where the workers' time goes ---- */
  const flameParts = () => {
    const sample = kind("sample").total;
    const ops = run.ops.map((op, i) => ({name: op.name, value: op.total, colour: opColour(i), below: functionsOf(i)}));
    const extra = ["fill", "store_read", "store_write", "store_wait"].filter(k => kind(k).count)
      .map(k => ({name: words[k], value: kind(k).total, colour: "var(--seal)"}));
    const inside = [...ops, ...extra];
    const known = inside.reduce((sum, p) => sum + p.value, 0);
    if (sample > known) inside.push({name: "between ops", value: sample - known, colour: "var(--rest)"});
    const top = [{name: "samples", value: sample, colour: "var(--accent)"},
      {name: words.unpack, value: kind("unpack").total, colour: "var(--c1)"},
      {name: words.wait_read, value: kind("wait_read").total, colour: "var(--wait)"},
      {name: words.wait_peer, value: kind("wait_peer").total, colour: "var(--wait)"},
      {name: words.wait_work, value: kind("wait_work").total, colour: "var(--idle)", quiet: true},
      {name: words.seal, value: kind("seal").total, colour: "var(--seal)"}];
    const rest = workerTime - top.reduce((sum, p) => sum + p.value, 0);
    if (rest > 0) top.push({name: "starting, ending, handing out", value: rest, colour: "var(--rest)"});
    return {top, inside};
  };
  const flameRow = parts => {
    const row = el("div", {});
    for (const part of parts) {
      const share = part.value / workerTime;
      if (share < 0.0005) continue;
      const label = `${part.name} ${percent(share)}`;
      if (part.gap) { row.append(el("span", {style: `flex: none; width: calc(${100 * share}% - 2px)`})); continue; }
      row.append(withTip(el("button", {type: "button", class: (part.quiet ? "quiet " : "") + (part.faint ? "faint " : "") + (share < 0.05 ? "thin" : ""),
        style: `background:${part.colour}; width: calc(${100 * share}% - 2px)`, "aria-label": label},
        share < 0.05 ? "" : label), `${part.name}\n${time(part.value)} of ${time(workerTime)}: ${percent(share)}`));
    }
    return row;
  };
  const drawFlame = () => {
    const {top, inside} = flameParts();
    return section("flame", "Where the workers' time goes", `${setup.threads} workers × ${time(run.seconds)}. Width is time; the third row is what samples are made of${functions.probes ? ", the last in which functions probes found each op" : ""}.`,
      el("div", {class: "flame"}, flameRow([{name: "all workers", value: workerTime, colour: "var(--faint)", quiet: true}]), flameRow(top), flameRow(inside),
        functions.probes > 0 && flameRow(inside.flatMap(flameBelow))));
  };

  /* ---- Table of ops ---- */
  const spark = op => {
    if (op.by_size.length < 2) return "";
    const [w, h] = [86, 22], xs = op.by_size.map(b => Math.log2(b[0])), ys = op.by_size.map(b => b[2]);
    const [x0, x1, y1] = [Math.min(...xs), Math.max(...xs), Math.max(...ys)];
    const points = op.by_size.map((b, i) => `${(4 + (xs[i] - x0) / (x1 - x0) * (w - 8)).toFixed(1)},${(h - 3 - ys[i] / y1 * (h - 6)).toFixed(1)}`);
    const svg = el("svg", {class: "spark", width: w, height: h, role: "img", "aria-label": "time by input size"},
      el("path", {d: "M" + points.join("L"), fill: "none", stroke: "var(--accent)", "stroke-width": 1.6}));
    return withTip(svg, op.by_size.map(b => `from ${bytes(b[0])}: ${time(b[2])} (${count(b[1])})`).join("\n"));
  };
  const growth = op => op.per_byte > 0 && op.by_size.length > 1 ? `${op.fixed >= 0 ? time(Math.max(op.fixed, 0)) : "0"} + ${time(op.per_byte * 1e6)}/MB` : "";
  const tableRow = (name, t, colour, whole, group) => el("tr", {"data-row": name},
    el("td", {}, el("span", {class: "swatch", style: `background:${colour}`}), name),
    el("td", {}, figure(`${group}.${name}.count`, t.count, count(t.count))),
    el("td", {}, figure(`${group}.${name}.total`, t.total, time(t.total))),
    el("td", {class: "barcell"}, el("span", {class: "bar", style: `background:${colour}; width:${Math.min(64, 64 * share(t.total, whole))}px`}), percent(share(t.total, whole))),
    el("td", {}, figure(`${group}.${name}.mean`, t.mean, time(t.mean))),
    el("td", {}, figure(`${group}.${name}.p50`, t.p50, time(t.p50))),
    el("td", {}, figure(`${group}.${name}.p99`, t.p99, time(t.p99))),
    el("td", {}, t.bytes_in ? bytes(t.bytes_in / t.timed) : ""),
    el("td", {}, t.bytes_out ? bytes(t.bytes_out / t.timed) : ""),
    el("td", {}, spark(t)), el("td", {}, growth(t)));
  const groupRow = text => el("tr", {class: "group"}, el("td", {colspan: 11}, text));
  const drawOps = () => {
    const body = el("tbody", {});
    run.ops.forEach((op, i) => body.append(tableRow(op.mapped ? `${op.name} (in unpack)` : op.name, op, opColour(i), workerTime, "ops")));
    body.append(groupRow("workers besides"));
    for (const k of ["unpack", "fill", "store_read", "store_write", "store_wait", "wait_host", "seal", "wait_read", "wait_peer", "wait_work"])
      if (kind(k).count) body.append(tableRow(k, kind(k), k.startsWith("wait") ? "var(--wait)" : "var(--seal)", workerTime, "kinds"));
    body.append(groupRow("reading (overlapping) and the consumer, against the run's time"));
    for (const k of ["read", "wait_batch", "deliver", "consume"])
      if (kind(k).count) body.append(tableRow(k, kind(k), "var(--rest)", run.seconds, "kinds"));
    const measured = run.fused.length > 0 ? " Ops that run together row by row are measured in one sample of sixteen; their totals are their shares of the whole." : "";
    return section("ops", "Every op", "Time of all threads together; the last columns show how a call's time grows with its input." + measured,
      el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of ops"},
        el("table", {}, el("thead", {}, el("tr", {}, ...["", "count", "total", "share", "mean", "p50", "p99", "in", "out", "by size", "grows"].map(t => el("th", {scope: "col"}, t)))), body)));
  };

  /* ---- Charts over time ---- */
  const chart = (height, label) => {
    const width = 1000;
    return {width, height, svg: el("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none"})};
  };
  const frame = (content, low, high, left, right) => el("div", {}, content,
    el("div", {style: "display:flex;justify-content:space-between;font-size:12px;color:var(--soft);margin-top:4px"}, el("span", {}, left), el("span", {}, right)));
  const legend = entries => el("ul", {class: "legend"}, ...entries.map(([colour, text]) =>
    el("li", {}, el("span", {class: "swatch", style: `background:${colour}`}), text)));
  const stack = (svg, series, width, height) => {
    const n = run.buckets.length, base = new Array(n).fill(0);
    for (const [column, colour] of series) {
      const up = [], down = [];
      for (let i = 0; i < n; i++) {
        const x = (i + 0.5) / n * width;
        down.unshift(`${x.toFixed(1)},${(height * (1 - base[i])).toFixed(1)}`);
        base[i] = Math.min(1, base[i] + run.buckets[i][column]);
        up.push(`${x.toFixed(1)},${(height * (1 - base[i])).toFixed(1)}`);
      }
      svg.append(el("path", {d: `M${up.join("L")}L${down.join("L")}Z`, fill: colour}));
    }
  };
  const hoverBuckets = (svg, text) => {
    svg.addEventListener("pointermove", e => {
      const box = svg.getBoundingClientRect(), n = run.buckets.length;
      const i = Math.max(0, Math.min(n - 1, Math.floor((e.clientX - box.left) / box.width * n)));
      showTip(`${time(run.seconds * i / n)}\n${text(run.buckets[i])}`, e.clientX, e.clientY);
    });
    svg.addEventListener("pointerleave", hideTip);
  };
  const drawUse = () => {
    const {svg, width, height} = chart(150, "Shares of the workers' time over the run");
    stack(svg, [[0, "var(--accent)"], [1, "var(--seal)"], [2, "var(--wait)"], [3, "var(--idle)"]], width, height);
    hoverBuckets(svg, b => `samples ${percent(b[0])}, waiting for reads ${percent(b[2])}, without work ${percent(b[3])}\nconsumer waits ${percent(b[4])}\n${count(b[7])} samples/s, ${b[6].toFixed(1)} reads in flight`);
    return section("use", "Workers over time", "What share of them did what; up to the top is all of them.",
      frame(svg, 0, 1, "0", time(run.seconds)),
      legend([["var(--accent)", "samples"], ["var(--seal)", "sealing"], ["var(--wait)", "waiting for reads"], ["var(--idle)", "without work"]]));
  };
  const drawRate = () => {
    const {svg, width, height} = chart(150, "Samples per second over the run");
    const n = run.buckets.length, top = Math.max(...run.buckets.map(b => b[7])) || 1;
    const step = Math.max(1, Math.round(n / 80));
    for (let i = 0; i < n; i += step) {
      const part = run.buckets.slice(i, i + step), mean = part.reduce((s, b) => s + b[7], 0) / part.length;
      svg.append(el("rect", {x: i / n * width + 1, width: width * part.length / n - 2, y: height - mean / top * height, height: mean / top * height, fill: "var(--c1)"}));
    }
    const y = height - Math.min(1, run.verdict.rate / top) * height;
    svg.append(el("line", {x1: 0, x2: width, y1: y, y2: y, stroke: "var(--ink)", "stroke-dasharray": "6 5", "stroke-width": 1.2, "vector-effect": "non-scaling-stroke"}));
    hoverBuckets(svg, b => `${count(b[7])} samples/s\n${b[6].toFixed(1)} reads in flight`);
    return section("rate", "Samples per second", `Samples finished in each slice of time, up to ${count(top)}; the dashed line is what was delivered after the first batch.`,
      frame(svg, 0, top, "0", time(run.seconds)));
  };

  /* ---- Batches ---- */
  const drawBatches = () => {
    const {svg, width, height} = chart(180, "Wait and delay of every batch");
    const rows = run.batches, totals = run.batch_totals, mid = height / 2;
    const value = b => [b[6], Math.max(0, b[4] - b[2])];
    const top = Math.max(1e-9, ...rows.flatMap(value));
    const w = width / Math.max(rows.length, 1);
    rows.forEach((b, i) => {
      const [wait, delay] = value(b), gap = Math.min(2, w / 4);
      const bar = el("g", {},
        el("rect", {x: i * w, width: w, y: 0, height, fill: "transparent"}),
        el("rect", {x: i * w + gap / 2, width: w - gap, y: mid - wait / top * (mid - 2), height: Math.max(0.5, wait / top * (mid - 2)), fill: "var(--wait)"}),
        el("rect", {x: i * w + gap / 2, width: w - gap, y: mid, height: Math.max(0.5, delay / top * (mid - 2)), fill: b[8] ? "var(--c3)" : "var(--c0)"}));
      svg.append(withTip(bar, `batch ${b[0]}\nthreads worked ${time(b[5])} on it, over ${time(Math.max(0, b[2] - b[1]))}\nthe consumer waited ${time(wait)}\nit was ready ${time(delay)} before it was taken\nthen consumed for ${time(b[7])}${b[8] ? "\novertaken by a later batch" : ""}`));
    });
    svg.append(el("line", {class: "axis", x1: 0, x2: width, y1: mid, y2: mid}));
    return section("batches", "Batches: waited for, or waiting",
      `Above the line the consumer waited for the batch; below it the batch waited, ready, for the consumer. The longest bar is ${time(top)}.`,
      frame(svg, 0, 1, `batch ${rows.length ? rows[0][0] : 0}`, `batch ${rows.length ? rows[rows.length - 1][0] : 0}`),
      legend([["var(--wait)", "the consumer waited"], ["var(--c0)", "ready, not yet taken"], ["var(--c3)", "ready after a later one"]]),
      el("div", {class: "tiles"},
        tile("batch.work", totals.mean_work, time(totals.mean_work), "of threads per batch, mean"),
        tile("batch.wait", totals.mean_wait, time(totals.mean_wait), "waited for, mean"),
        tile("batch.delay", totals.mean_delay, time(totals.mean_delay), "ready before taken, mean"),
        tile("batch.overtaken", totals.overtaken, count(totals.overtaken), "overtaken by a later one")));
  };

  /* ---- What limits the rate ---- */
  const drawLimits = () => {
    const v = run.verdict;
    if (v.bound === "unknown") return null;
    const stations = [["threads", v.limit_threads, "--c0"], ["CPUs", v.limit_cpus, "--c7"], ["Python's lock", v.limit_host, "--c4"], ["storage", v.limit_storage, "--c1"], ["consumer", v.limit_consumer, "--c3"]].filter(s => s[1] > 0);
    const top = Math.max(v.rate, Math.min(...stations.map(s => s[1])) * 4 || 1);
    const bar = (name, rate, colour) => el("tr", {}, el("td", {}, name), el("td", {}, count(rate)),
      el("td", {class: "barcell", style: "width:60%"}, el("span", {class: "bar", style: `height:14px;background:var(${colour});width:${Math.min(100, 100 * rate / top)}%`})));
    const total = c => c.bytes * (setup.dataset_samples || 0);
    const caches = v.caches.length > 0 ? [
      el("p", {class: "about", style: "margin:16px 0 4px"}, "Predicted with a cache, once it is full, and what it would take:"),
      el("table", {}, el("tbody", {}, ...v.caches.map(c => bar(`after ${c.after}, ${bytes(total(c))}`, c.rate, "--c2")),
        ...(v.uncached > 0 ? [bar(v.uncached_at_least ? "without the cache, at least" : "without the cache", v.uncached, "--rest")] : [])))] : [];
    return section("limits", "What each station could give", "Samples per second. The run goes at the lowest; a bar that fills the row gives at least that. millrace explain shows the arithmetic.",
      el("table", {}, el("tbody", {}, bar("measured", v.rate, "--ink"), ...stations.map(s => bar(...s)))),
      el("p", {class: "about", style: "margin:16px 0 4px"}, "Predicted with other numbers of threads:"),
      el("table", {}, el("tbody", {}, ...v.predictions.map(p => bar(`${p.threads} ${p.threads === 1 ? "thread" : "threads"}`, p.rate, p.threads === setup.threads ? "--accent" : "--rest")))),
      ...caches);
  };

  /* ---- Timeline ---- */
  const timeline = () => {
    const rowHeight = 30, tracks = run.header.tracks || [], detail = run.timeline;
    for (const s of detail.spans) { s[3] /= 1e9; s[4] /= 1e9; }
    const order = tracks.map((t, i) => i).filter(i => tracks[i].kind !== "reader" || tracks.filter(t => t.kind === "reader").length <= 4)
      .sort((a, b) => ["consumer", "worker", "reader"].indexOf(tracks[a].kind) - ["consumer", "worker", "reader"].indexOf(tracks[b].kind) || a - b).slice(0, 40);
    const rowOf = new Map(order.map((t, row) => [t, row]));
    const canvas = el("canvas", {tabindex: 0, role: "img", height: order.length * rowHeight + 22, "aria-label":
      "Timeline of every thread. Arrow keys move, plus and minus zoom, 0 shows all, W goes to the longest wait."});
    const where = el("span", {class: "where", "aria-live": "polite"});
    let from = 0, to = run.seconds, colour = {};
    const readColours = () => {
      const style = getComputedStyle(document.documentElement);
      const get = name => style.getPropertyValue(name).trim();
      colour = {ops: colours.map(get), wait: get("--wait"), idle: get("--idle"), seal: get("--seal"), rest: get("--rest"), on: get("--on"),
        soft: get("--soft"), faint: get("--faint"), accent: get("--accent"), card: get("--card"), consume: get("--c3"), read: get("--c1")};
    };
    const fillOf = s => {
      const name = detail.kinds[s[1]];
      if (name === "op" || name === "fused" || name === "part") return colour.ops[s[2] % colours.length];
      return {wait_read: colour.wait, wait_peer: colour.wait, wait_batch: colour.wait, wait_work: colour.idle, seal: colour.seal, consume: colour.consume,
        deliver: colour.seal, read: colour.read, unpack: colour.read, sample: colour.accent}[name] || colour.rest;
    };
    const nameOf = s => {
      const name = detail.kinds[s[1]];
      if (name === "op") return run.ops[s[2]].name;
      if (name === "fused") return run.ops.slice(s[2], s[2] + (run.ops[s[2]].fused || 1)).map(o => o.name).join(" + ");
      return words[name] || name;
    };
    const inset = s => ({sample: 2, consume: 2, wait_batch: 2, wait_read: 2, wait_peer: 2, wait_work: 2, read: 9, unpack: 2, deliver: 2, seal: 2}[detail.kinds[s[1]]] || 9);
    const draw = () => {
      const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = order.length * rowHeight + 22;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.height = height + "px";
      const g = canvas.getContext("2d");
      g.scale(ratio, ratio);
      g.clearRect(0, 0, width, height);
      const x = t => (t - from) / (to - from) * width;
      order.forEach((t, row) => {
        g.fillStyle = row % 2 ? colour.card : colour.faint;
        g.fillRect(0, row * rowHeight, width, rowHeight);
        const heat = run.heat[t], n = heat.length / 2;
        for (let i = 0; i < n; i++) {
          const [left, right] = [x(run.seconds * i / n), x(run.seconds * (i + 1) / n)];
          if (right < 0 || left > width) continue;
          g.globalAlpha = 0.30 * Math.min(1, heat[i]);
          g.fillStyle = tracks[t].kind === "consumer" ? colour.consume : tracks[t].kind === "reader" ? colour.read : colour.accent;
          g.fillRect(left, row * rowHeight + 2, right - left + 0.5, rowHeight - 4);
          g.globalAlpha = 0.30 * Math.min(1, heat[n + i]);
          g.fillStyle = colour.wait;
          g.fillRect(left, row * rowHeight + 2, right - left + 0.5, rowHeight - 4);
        }
        g.globalAlpha = 1;
      });
      for (const s of detail.spans) {
        const row = rowOf.get(s[0]);
        if (row === undefined) continue;
        const left = x(s[3]), right = x(s[3] + s[4]);
        if (right < 0 || left > width) continue;
        const margin = inset(s);
        g.globalAlpha = detail.kinds[s[1]] === "sample" ? 0.45 : 1;
        g.fillStyle = fillOf(s);
        g.fillRect(left, row * rowHeight + margin, Math.max(0.6, right - left - (right - left > 4 ? 1 : 0)), rowHeight - 2 * margin);
        if (right - left > 60 && margin > 5) {
          g.globalAlpha = 1;
          g.fillStyle = colour.on;
          g.font = "11px system-ui, sans-serif";
          g.save();
          g.beginPath();
          g.rect(Math.max(0, left), row * rowHeight, right - left - 4, rowHeight);
          g.clip();
          g.fillText(nameOf(s), Math.max(0, left) + 4, row * rowHeight + rowHeight / 2 + 4);
          g.restore();
        }
      }
      g.globalAlpha = 1;
      g.fillStyle = colour.soft;
      g.font = "11px system-ui, sans-serif";
      const steps = Math.max(2, Math.floor(width / 130));
      for (let i = 0; i <= steps; i++) {
        const text = time(from + (to - from) * i / steps);
        const size = g.measureText(text).width;
        g.fillText(text, Math.min(width - size, Math.max(0, i / steps * width - size / 2)), height - 5);
      }
      where.textContent = `${time(from)} to ${time(to)}`;
    };
    const view = (a, b) => {
      const length = Math.min(run.seconds, Math.max(1e-6, b - a));
      from = Math.max(0, Math.min(run.seconds - length, a));
      to = from + length;
      draw();
    };
    const zoom = (factor, at = (from + to) / 2) => view(at - (at - from) * factor, at + (to - at) * factor);
    const longestWait = () => {
      const b = run.batches.slice(1).reduce((worst, x) => !worst || x[6] > worst[6] ? x : worst, null);
      if (b) view(b[3] - b[6] * 0.3, b[4] + b[6] * 0.3);
    };
    const actions = {"+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => view(0, run.seconds), w: longestWait, W: longestWait,
      ArrowLeft: () => view(from - (to - from) / 5, to - (to - from) / 5), ArrowRight: () => view(from + (to - from) / 5, to + (to - from) / 5),
      ArrowUp: () => zoom(0.5), ArrowDown: () => zoom(2), Home: () => view(0, to - from), End: () => view(run.seconds - (to - from), run.seconds)};
    canvas.addEventListener("keydown", e => {
      if (actions[e.key]) { actions[e.key](); e.preventDefault(); }
    });
    const timeAt = e => from + (e.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth * (to - from);
    canvas.addEventListener("wheel", e => {
      if (!e.ctrlKey && !e.metaKey && Math.abs(e.deltaY) > Math.abs(e.deltaX) && document.activeElement !== canvas) return;
      e.preventDefault();
      if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) view(from + e.deltaX / canvas.clientWidth * (to - from), to + e.deltaX / canvas.clientWidth * (to - from));
      else zoom(Math.exp(e.deltaY / 300), timeAt(e));
    }, {passive: false});
    const fingers = new Map();
    let last = null;
    canvas.addEventListener("pointerdown", e => { fingers.set(e.pointerId, e.clientX); canvas.setPointerCapture(e.pointerId); last = null; });
    const lift = e => { fingers.delete(e.pointerId); last = null; };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointermove", e => {
      if (!fingers.has(e.pointerId)) { hover(e); return; }
      const before = fingers.get(e.pointerId);
      fingers.set(e.pointerId, e.clientX);
      const xs = [...fingers.values()];
      if (xs.length === 2) {
        const spread = Math.abs(xs[0] - xs[1]);
        if (last) zoom(last / Math.max(8, spread), timeAt({clientX: (xs[0] + xs[1]) / 2}));
        last = spread;
      } else {
        const by = (before - e.clientX) / canvas.clientWidth * (to - from);
        view(from + by, to + by);
      }
    });
    const hover = e => {
      const t = timeAt(e), row = Math.floor((e.clientY - canvas.getBoundingClientRect().top) / rowHeight);
      const slack = (to - from) / canvas.clientWidth;
      const hit = detail.spans.filter(s => rowOf.get(s[0]) === row && s[3] - slack <= t && t <= s[3] + s[4] + slack).sort((a, b) => a[4] - b[4])[0];
      if (!hit) { hideTip(); return; }
      const aboutBatch = detail.about[hit[1]] === "b";
      showTip(`${nameOf(hit)}\n${time(hit[4])} at ${time(hit[3])}\n${aboutBatch ? "batch" : "sample"} ${hit[5]}${hit[7] > 1 ? ` and ${count(hit[7] - 1)} more` : ""}${!aboutBatch && hit[6] >= 0 ? `, batch ${hit[6]}` : ""}`, e.clientX, e.clientY);
    };
    canvas.addEventListener("pointerleave", hideTip);
    addEventListener("resize", draw);
    addEventListener("theme", () => { readColours(); draw(); });
    const button = (text, label, action) => el("button", {type: "button", "aria-label": label, onclick: action}, text);
    const about = detail.complete ? "Every span is here." :
      `Every span of ${detail.intervals.map(w => `${time(w[0])} to ${time(w[1])}`).join(" and of ")}; elsewhere the shade shows how busy a thread was. millrace report --chrome writes all ${count(run.spans)}.`;
    const node = section("timeline", "Timeline", `Drag or use the arrow keys to move; pinch, + and − to zoom. ${about}`,
      el("div", {class: "tools"}, button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
        button("All", "Show all", () => view(0, run.seconds)), button("Longest wait", "Go to the longest wait", longestWait), where),
      el("div", {class: "timeline"},
        el("div", {class: "names", "aria-hidden": "true"}, ...order.map(i => el("div", {}, tracks[i].kind === "consumer" ? "consumer" : `${tracks[i].kind} ${tracks[i].number}`))), canvas),
      legend([...run.ops.map((op, i) => [opColour(i), op.fused > 1 ? `${op.name} and what runs with it` : op.name]).filter((_, i) => !isFusedIn(i)),
        ["var(--wait)", "waiting"], ["var(--idle)", "without work"], ["var(--c3)", "consuming"], ["var(--c1)", "reading, unpacking"]]));
    return {node, start: () => { readColours(); view(0, run.seconds); }};
  };
  const isFusedIn = i => run.ops.some((op, k) => k < i && i < k + op.fused && op.fused > 1);

  /* ---- Samples ---- */
  const drawSlowest = () => {
    const thumbs = data.thumbs || {}, groups = new Map();
    for (const s of run.slowest) groups.set(s.sample, [...(groups.get(s.sample) || []), s]);
    const card = ([s, ...again]) => el("li", {},
      thumbs[s.sample] ? el("img", {src: thumbs[s.sample], alt: ""}) : data.thumbs && el("div", {class: "none"}),
      el("p", {}, el("b", {"data-figure": "slowest", "data-value": s.seconds}, time(s.seconds)), ` in batch ${s.batch}${again.length ? ` and ${again.length} more` : ""}`, el("br"),
        s.name ? s.name.split("/").slice(-2).join("/") : `sample ${s.sample}`));
    const cards = [...groups.values()], first = cards.slice(0, 12), rest = cards.slice(12);
    const median = kind("sample").p50;
    return run.slowest.length > 0 && section("slowest", "Slowest samples",
      `The ${count(run.slowest.length)} slowest, by sample. The median takes ${time(median)}, the slowest ${(run.slowest[0].seconds / Math.max(median, 1e-9)).toFixed(1)} times that.`,
      el("ul", {class: "samples"}, ...first.map(card)),
      rest.length > 0 && el("details", {}, el("summary", {}, `${rest.length} more`), el("ul", {class: "samples", style: "margin-top:12px"}, ...rest.map(card))));
  };

  /* ---- Ranks of one run ---- */
  const drawRanks = () => {
    const all = data.ranks;
    if (!all) return null;
    const most = Math.max(...all.ranks.map(r => r.rate)), slow = all.ranks.find(r => r.rank === all.slowest);
    const head = ["rank", "samples/s", "consumer waits", "longest of all", "workers busy", "wait for reads", "for peers", "verdict"];
    const row = r => el("tr", {}, el("td", {}, all.stands_out && r === slow ? el("b", {}, `${r.rank}`) : `${r.rank}`),
      el("td", {class: "barcell"}, el("span", {class: "bar", style: `background:var(--accent); width:${64 * share(r.rate, most)}px`}), figure(`ranks.${r.rank}.rate`, r.rate, count(r.rate))),
      ...[r.stall, r.longest_wait, r.busy, r.wait_read, r.wait_peer].map(x => el("td", {}, percent(x))), el("td", {}, r.title));
    const opRow = o => el("tr", {}, el("td", {}, o.name), el("td", {}, count(o.count)), el("td", {}, time(o.total)),
      ...[o.lowest, o.highest].map(x => el("td", {}, `${time(x.mean)} (rank ${x.rank})`)));
    const table = (heads, rows) => el("div", {class: "scroll"}, el("table", {}, el("thead", {}, el("tr", {}, ...heads.map(t => el("th", {scope: "col"}, t)))), el("tbody", {}, ...rows)));
    const ops = all.ops.filter(o => o.count > 0);
    const missing = all.ranks.length < all.world ? ` The traces of ${all.world - all.ranks.length} of ${all.world} ranks were not given.` : "";
    return section("ranks", `${all.ranks.length} ranks, ${count(all.rate)} samples per second together`,
      `${all.stands_out ? `Rank ${all.slowest} holds the others up: ${slow.title}.` : "No rank stands out."} The rest of this page is about rank ${all.slowest}.${missing}`,
      table(head, all.ranks.map(row)), ops.length > 0 && table(["op, over all ranks", "count", "total", "lowest mean", "highest mean"], ops.map(opRow)));
  };

  /* ---- Two runs ---- */
  const drawComparison = () => {
    if (!other) return null;
    const rows = [["samples per second", r => r.verdict.rate, count, 1], ["consumer waiting", r => r.verdict.stall, percent, -1],
      ["a sample, median", r => (r.kinds.sample || {}).p50 || 0, time, -1], ["a sample, p99", r => (r.kinds.sample || {}).p99 || 0, time, -1],
      ["wait per batch", r => r.batch_totals.mean_wait, time, -1], ["a read", r => (r.kinds.read || {}).mean || 0, time, -1],
      ...run.ops.filter(op => other.ops.some(o => o.name === op.name)).map(op => [op.name + ", per call", r => { const o = r.ops.find(x => x.name === op.name); return o.count ? o.total / o.count : 0; }, time, -1])];
    const times = x => x >= 100 ? `× ${count(x)}` : x >= 0.01 ? `× ${x.toFixed(2)}` : `÷ ${count(1 / x)}`;
    const different = run.header.fingerprint !== other.header.fingerprint ? " They ran different pipelines." : "";
    const row = ([name, get, text, better]) => {
      const [a, b] = [get(run), get(other)], ratio = a > 0 ? b / a : 0;
      const mood = Math.abs(ratio - 1) < 0.02 || !ratio ? "" : (ratio > 1) === (better > 0) ? "up" : "down";
      return el("tr", {}, el("td", {}, name), el("td", {}, text(a)), el("td", {}, text(b)), el("td", {class: mood}, ratio ? times(ratio) : ""));
    };
    const short = path => path.split("/").pop();
    return section("compare", "Two runs", `${run.verdict.title} against ${other.verdict.title}.${different} The rest of this page is about the first.`,
      el("div", {class: "scroll"}, el("table", {}, el("thead", {}, el("tr", {}, ...["", short(run.trace), short(other.trace), "second / first"].map(t => el("th", {scope: "col"}, t)))),
        el("tbody", {}, ...rows.map(row)))));
  };

  /* ---- Counters ---- */
  const drawCounters = () => {
    const c = run.counters;
    if (!c || !c.ops.length) return null;
    const own = "cycles" in c.ops[0].counts;
    const heads = ["", "calls", "CPU time", "page faults", "from disk", "waits", "preempted", ...(own ? ["instructions/cycle", "cache misses"] : [])];
    const row = r => {
      const v = r.counts, each = x => x / r.calls, few = x => x >= 10 ? count(x) : x.toFixed(2);
      const name = run.ops.slice(r.op, r.op + r.n_ops).map(o => o.name).join(" + ");
      return el("tr", {}, el("td", {}, name), ...[count(r.calls), time(each(v.cpu_ns) * 1e-9), few(each(v.minor_faults)), few(each(v.major_faults)),
        few(each(v.waits)), few(each(v.preempted)), ...(own ? [v.cycles ? (v.instructions / v.cycles).toFixed(2) : "", count(each(v.cache_misses))] : [])].map(t => el("td", {}, t)));
    };
    return section("counters", "Counters per call", `From one sample in 64${c.note ? `; ${c.note}` : ""}.`,
      el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of counters"},
        el("table", {}, el("thead", {}, el("tr", {}, ...heads.map(h => el("th", {scope: "col"}, h)))), el("tbody", {}, ...c.ops.map(row)))));
  };

  /* ---- Setup ---- */
  const drawSetup = () => {
    const entries = Object.entries(setup).map(([k, v]) => [k.replaceAll("_", " "), typeof v === "number" ? count(v) : v]);
    let document_ = run.header.pipeline;
    try { document_ = JSON.stringify(JSON.parse(document_), null, 1); } catch { /* shown as it is */ }
    return section("setup", "The run", null, el("dl", {class: "setup"}, ...entries.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v)))),
      el("details", {}, el("summary", {}, "The pipeline"), el("pre", {}, document_)));
  };

  const lines = run.spans > 0 && timeline();
  const rest = () => [drawFlame(), lines.node, el("div", {class: "pair"}, drawUse(), drawRate()), drawOps(), drawFunctions(),
    el("div", {class: "pair"}, drawBatches(), drawLimits()), drawCounters(), drawSlowest()];
  main.replaceChildren(...[drawRanks(), drawVerdict(), drawComparison(), ...(lines ? rest() : []), drawSetup()].filter(Boolean));
  if (lines) lines.start();
  document.documentElement.dataset.ready = "yes";
})();

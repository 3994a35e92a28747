"use strict";
// Charts, the slider and sorting. What is read was written by the page itself; text goes in as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("slider-data").textContent);
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const views = {};
  const state = { t: data.temperatures.indexOf(data.hat), a: data.alphas.indexOf(data.alpha) };

  const colours = (isDark) => [isDark ? "#56B4E9" : "#0072B2", isDark ? "#f0954f" : "#D55E00", isDark ? "#35c39d" : "#009E73", "#CC79A7", "#E69F00", isDark ? "#a99be0" : "#6a55b0", "#8a949e"];
  function config(isDark) {
    const ink = isDark ? "#c9d1d9" : "#37414b", line = isDark ? "#313a44" : "#e3e6e9";
    const [blue, orange] = colours(isDark);
    return {
      background: "transparent", view: { stroke: null }, padding: { left: 2, right: 14, top: 4, bottom: 2 }, font: "system-ui, 'Liberation Sans', sans-serif",
      axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal", labelFontSize: 11, labelFlush: false, labelSeparation: 5 }, axisY: { minExtent: 34 },
      legend: { labelColor: ink, titleColor: ink, titleFontWeight: "normal" },
      range: { category: colours(isDark),
               heatmap: isDark ? ["#1c2a35", "#56B4E9"] : ["#e8f1f7", "#0072B2"], ramp: isDark ? ["#1c2a35", "#56B4E9"] : ["#e8f1f7", "#0072B2"] },
      style: {
        bar: { color: blue }, soft: { color: ink, opacity: 0.45 }, gap: { color: orange }, point: { color: blue },
        mark: { color: ink, opacity: 0.8 }, markname: { color: ink, fontSize: 11 }, at: { color: orange, strokeWidth: 2 },
        pointer: { color: orange, strokeWidth: 1 }, count: { color: ink, fontSize: 9.5 }, limit: { color: ink, strokeWidth: 1.5 },
        floor: { color: ink, opacity: 0.13 }, floorline: { color: ink, strokeDash: [6, 4], opacity: 0.7 },
        chosen: { color: orange }, chosentext: { color: isDark ? orange : "#b84f00", fontSize: 15, fontWeight: "bold" }, chosenname: { color: isDark ? orange : "#b84f00", fontSize: 12, fontWeight: "bold" }, cell: { stroke: isDark ? "#1a2027" : "#ffffff" },
      },
    };
  }

  async function draw(isDark) {
    for (const [name, spec] of Object.entries(charts)) {
      const place = document.getElementById("chart-" + name);
      const made = await vegaEmbed(place, spec, { actions: false, renderer: "svg", config: config(isDark), ast: false });
      views[name] = made.view;
      if (name.startsWith("trade-")) follow(made.view);
    }
    legends(isDark);
    show();
    document.documentElement.dataset.drawn = isDark ? "dark" : "light";
  }

  function legends(isDark) {
    const told = JSON.parse(document.getElementById("legend-data").textContent);
    const shapes = { circle: "M15 3a5 5 0 1 0 .01 0z", square: "M10 3h10v10h-10z", "triangle-up": "M15 2l6 11h-12z", diamond: "M15 2l5 6-5 6-5-6z", cross: "M13 2h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "triangle-down": "M15 14l6 -11h-12z", "triangle-right": "M21 8l-11 6v-12z" };
    for (const list of document.querySelectorAll(".legend")) {
      const points = list.dataset.kind !== "lines", held = new Set(told[list.dataset.kind]);
      list.replaceChildren(...told.names.map((name, i) => [name, i]).filter(([name]) => held.has(name)).map(([name, i]) => {
        const item = document.createElement("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        const mark = document.createElementNS("http://www.w3.org/2000/svg", "path"), colour = colours(isDark)[i];
        for (const [key, value] of Object.entries({ width: 30, height: 16, "aria-hidden": "true" })) svg.setAttribute(key, value);
        const look = points ? { d: shapes[told.shapes[i]], fill: colour } : { d: "M0 8h30", stroke: colour, "stroke-width": 2.5, "stroke-dasharray": told.dashes[i].join(" ") };
        for (const [key, value] of Object.entries(look)) mark.setAttribute(key, value);
        svg.append(mark);
        item.append(svg, name);
        return item;
      }));
    }
  }

  // --- the trade-off: one pointer and one slider for all panels -----------------------------------------------------
  const panels = () => Object.entries(views).filter(([name]) => name.startsWith("trade-")).map(([, view]) => view);
  function follow(view) {
    view.addEventListener("mousemove", (event) => {
      const box = view.container().querySelector("svg").getBoundingClientRect();
      const x = event.clientX - box.left - view.origin()[0];
      const t = nearest(view.scale("x").invert(x));
      hover(data.temperatures[t]);
    });
    view.addEventListener("mouseout", () => hover(0));
    view.addEventListener("click", () => { const t = data.temperatures.indexOf(hovered); if (t >= 0) { state.t = t; show(); } });
  }
  let hovered = 0;
  function hover(t) {
    if (t === hovered) return;
    hovered = t;
    for (const view of panels()) view.signal("hover", t).runAsync();
    const tip = document.getElementById("hover-readout");
    tip.textContent = t ? told(data.temperatures.indexOf(t)) : tip.dataset.idle;
  }
  function nearest(t) {
    return data.temperatures.reduce((best, value, i) => Math.abs(value - t) < Math.abs(data.temperatures[best] - t) ? i : best, 0);
  }
  function value(metric, t) { return data.metrics[metric][state.a][t]; }
  function told(t) {
    const others = ["top_coverage_gap", "avg_coverage_gap", "threshold"].map(m => `${data.titles[m]} ${text(m, t)}`);
    return `T = ${data.temperatures[t].toFixed(2)}: ${text("avg_size", t)} labels, ${others.join(", ")}`;
  }
  const digits = { avg_size: 2, threshold: 4 };
  function text(metric, t) {
    const v = value(metric, t);
    if (v === null) return "∞";
    return metric === "empty_share" ? (100 * v).toFixed(1) + "%" : v.toFixed(digits[metric] ?? 3);
  }

  // --- the slider --------------------------------------------------------------------------------------------------
  const sliders = document.querySelectorAll(".slider-t"), level = document.getElementById("slider-alpha");
  function show() {
    const t = data.temperatures[state.t];
    for (const slider of sliders) {
      slider.value = state.t;
      slider.setAttribute("aria-valuetext", "T = " + t.toFixed(2));
    }
    level.value = state.a;
    for (const place of document.querySelectorAll(".at-alpha")) place.textContent = data.alphas[state.a];
    for (const place of document.querySelectorAll(".at-temperature")) place.textContent = t.toFixed(2);
    for (const output of document.querySelectorAll("output[data-metric]")) {
      output.textContent = text(output.dataset.metric, state.t);
      output.dataset.value = value(output.dataset.metric, state.t);
    }
    for (const view of panels()) view.signal("at", t).signal("level", data.alphas[state.a]).runAsync();
    document.querySelectorAll(".example").forEach((place, i) => fill(place, i, t));
  }
  function fill(place, i, t) {
    const [size, ...labels] = data.sets[i][state.a][state.t];
    place.querySelector(".live").textContent = "T = " + t.toFixed(2);
    const list = place.querySelector(".live-set");
    list.dataset.size = size;
    list.replaceChildren(...labels.map((y) => chip(y, y === data.truth[i])), rest(size, labels.length));
  }
  function chip(y, isTruth) {
    const made = document.createElement("span");
    made.className = isTruth ? "chip truth" : "chip";
    made.dataset.label = y;
    made.dir = "auto";
    made.textContent = data.names[y];
    return made;
  }
  function rest(size, shown) {
    const made = document.createElement("span");
    made.className = "more";
    made.textContent = size === 0 ? "empty" : size > shown ? `and ${size - shown} more` : "";
    return made;
  }
  for (const slider of sliders) slider.addEventListener("input", () => { state.t = Number(slider.value); show(); });
  level.addEventListener("change", () => { state.a = Number(level.value); show(); });
  for (const button of document.querySelectorAll("button[data-go]")) {
    button.addEventListener("click", () => { state.t = nearest(Number(button.dataset.go)); show(); });
  }

  // --- sorting -----------------------------------------------------------------------------------------------------
  for (const head of document.querySelectorAll("table.sortable th")) {
    head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending", column = head.cellIndex;
      for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = head.closest("table").tBodies[0];
      const key = (row) => { const cell = row.cells[column], held = cell.querySelector("data"); return held ? (held.value === "" ? null : Number(held.value)) : cell.textContent.trim(); };
      const rows = [...body.rows].map((row) => [key(row), row]);
      rows.sort(([x], [y]) => {
        if (x === null || y === null) return (x === null) - (y === null); // what has no value stays last
        return (typeof x === "string" ? x.localeCompare(y) : x - y) * (up ? 1 : -1);
      });
      body.append(...rows.map(([, row]) => row));
    });
  }

  show();
  draw(dark.matches);
  dark.addEventListener("change", () => draw(dark.matches));
  window.addEventListener("beforeprint", () => draw(false));
  window.addEventListener("afterprint", () => draw(dark.matches));
})();

"use strict";
// Charts, legends and sorting, on every page. What is read was written by the page itself; text goes in as text, never as HTML.
(() => {
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

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
        band: { color: blue, opacity: 0.2 }, running: { color: blue, strokeWidth: 2 }, halo: { color: isDark ? "#1a2027" : "#ffffff", stroke: isDark ? "#1a2027" : "#ffffff", strokeWidth: 4, fontSize: 11 },
      },
    };
  }

  async function draw(isDark) {
    const views = {};
    for (const [name, spec] of Object.entries(charts)) {
      const place = document.getElementById("chart-" + name);
      const made = await vegaEmbed(place, spec, { actions: false, renderer: "svg", config: config(isDark), ast: false });
      views[name] = made.view;
    }
    legends(isDark);
    document.dispatchEvent(new CustomEvent("drawn", { detail: views })); // for the scripts of one page alone
    document.documentElement.dataset.drawn = isDark ? "dark" : "light";
  }

  function legends(isDark) {
    const told = JSON.parse(document.getElementById("legend-data").textContent);
    const shapes = { circle: "M15 3a5 5 0 1 0 .01 0z", square: "M10 3h10v10h-10z", "triangle-up": "M15 2l6 11h-12z", diamond: "M15 2l5 6-5 6-5-6z", cross: "M13 2h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "triangle-down": "M15 14l6 -11h-12z", "triangle-right": "M21 8l-11 6v-12z" };
    for (const list of document.querySelectorAll(".legend")) {
      const points = !list.dataset.kind.startsWith("lines"), { names, held: shown } = told.kinds[list.dataset.kind], held = new Set(shown);
      list.replaceChildren(...names.map((name, i) => [name, i]).filter(([name]) => held.has(name)).map(([name, i]) => {
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

  document.addEventListener("DOMContentLoaded", () => draw(dark.matches)); // once the scripts of the page listen
  dark.addEventListener("change", () => draw(dark.matches));
  window.addEventListener("beforeprint", () => draw(false));
  window.addEventListener("afterprint", () => draw(dark.matches));
})();

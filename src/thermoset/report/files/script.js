"use strict";
// Charts, legends and sorting, on every page. What is read was written by the page itself; text goes in as text, never as HTML.
(() => {
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  const legend = JSON.parse(document.getElementById("legend-data").textContent); // colours come from the library
  const colours = (isDark) => isDark ? legend.dark : legend.light;
  function config(isDark) {
    const ink = isDark ? "#c9d1d9" : "#37414b", line = isDark ? "#313a44" : "#e3e6e9";
    const [blue, orange] = colours(isDark);
    return {
      params: [{ name: "dark", value: isDark }], background: "transparent", view: { stroke: null }, padding: { left: 2, right: 14, top: 4, bottom: 2 }, font: "system-ui, 'Liberation Sans', sans-serif",
      axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line, titleFontWeight: "normal", labelFontSize: 11, labelFlush: false, labelSeparation: 5 }, axisY: { minExtent: 34 },
      legend: { labelColor: ink, titleColor: ink, titleFontWeight: "normal" },
      range: { category: colours(isDark),
               heatmap: [isDark ? "#1c2a35" : "#e8f1f7", blue], ramp: [isDark ? "#1c2a35" : "#e8f1f7", blue] },
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
      const result = await vegaEmbed(place, spec, { mode: "vega-lite", actions: false, renderer: "svg", config: config(isDark), ast: false });
      views[name] = result.view;
    }
    legends(isDark);
    document.dispatchEvent(new CustomEvent("drawn", { detail: views })); // for the scripts of one page alone
    document.documentElement.dataset.drawn = isDark ? "dark" : "light";
  }

  function legends(isDark) {
    for (const list of document.querySelectorAll(".legend")) {
      const points = !list.dataset.kind.startsWith("lines");
      list.replaceChildren(...legend.kinds[list.dataset.kind].map((look) => {
        const item = document.createElement("li"), colour = isDark ? look.dark : look.light;
        const line = { d: "M0 8h30", stroke: colour, "stroke-width": 2.5, "stroke-dasharray": look.dash.join(" ") };
        const mark = { d: look.path, fill: look.hollow ? "var(--card)" : colour, stroke: colour, "stroke-width": 0.3, "stroke-dasharray": look.outline.map(n => n / 4).join(" "), transform: "translate(15 8) scale(5)" };
        const svg = drawn("svg", { width: 30, height: 16, "aria-hidden": "true" });
        svg.append(...(points ? [] : [drawn("path", line)]), drawn("path", mark));
        item.append(svg, look.name);
        return item;
      }));
    }
  }
  function drawn(kind, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
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

"use strict";
// The slider of the report and the pointer of its trade-off. Text goes in as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("slider-data").textContent);
  const views = {};
  const state = { t: data.temperatures.indexOf(data.hat), a: data.alphas.indexOf(data.alpha) };

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
    tip.textContent = t ? readout(data.temperatures.indexOf(t)) : tip.dataset.idle;
  }
  function nearest(t) {
    return data.temperatures.reduce((best, value, i) => Math.abs(value - t) < Math.abs(data.temperatures[best] - t) ? i : best, 0);
  }
  function value(metric, t) { return data.metrics[metric][state.a][t]; }
  function readout(t) {
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
    const element = document.createElement("span");
    element.className = isTruth ? "chip truth" : "chip";
    element.dataset.label = y;
    element.dir = "auto";
    element.textContent = data.names[y];
    return element;
  }
  function rest(size, shown) {
    const element = document.createElement("span");
    element.className = "more";
    element.textContent = size === 0 ? "empty" : size > shown ? `and ${size - shown} more` : "";
    return element;
  }
  for (const slider of sliders) slider.addEventListener("input", () => { state.t = Number(slider.value); show(); });
  level.addEventListener("change", () => { state.a = Number(level.value); show(); });
  for (const button of document.querySelectorAll("button[data-go]")) {
    button.addEventListener("click", () => { state.t = nearest(Number(button.dataset.go)); show(); });
  }

  document.addEventListener("drawn", (event) => {
    Object.assign(views, event.detail);
    panels().forEach(follow);
    show();
  });
  show();
})();

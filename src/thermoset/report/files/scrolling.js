"use strict";
// Tables that are wider than the window say that they scroll. Without scripts, shadows at their sides do.
(() => {
  const seen = new ResizeObserver((entries) => { for (const { target } of entries) look(target); });
  function look(place) {
    const wide = place.scrollWidth > place.clientWidth + 1, told = place.previousElementSibling;
    const hint = told?.classList.contains("swipe") ? told : null;
    if (wide && !hint) place.before(Object.assign(document.createElement("p"), { className: "swipe", textContent: "Scroll sideways for more columns →" }));
    if (!wide && hint) hint.remove();
  }
  for (const place of document.querySelectorAll(".scroll")) { seen.observe(place); look(place); }
})();

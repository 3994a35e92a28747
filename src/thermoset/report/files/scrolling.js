"use strict";
// Tables that are wider than the window say that they scroll. Without scripts, shadows at their sides do.
(() => {
  const seen = new ResizeObserver((entries) => { for (const { target } of entries) update(target); });
  function update(place) {
    const wide = place.scrollWidth > place.clientWidth + 1, previous = place.previousElementSibling;
    const hint = previous?.classList.contains("swipe") ? previous : null;
    if (wide && !hint) place.before(Object.assign(document.createElement("p"), { className: "swipe", textContent: "Scroll sideways for more columns →" }));
    if (!wide && hint) hint.remove();
  }
  for (const place of document.querySelectorAll(".scroll")) { seen.observe(place); update(place); }
})();

// Shows the numbers of a chart under the cursor: they are in the chart's data attributes, as text.
"use strict";

(() => {
  const tip = document.createElement("div");
  tip.className = "tooltip";
  tip.hidden = true;
  document.body.append(tip);

  const list = (text) => (text ? text.split("|") : []);

  // The points of a line, or the one point that is drawn as a dot.
  function points(line) {
    if (line.tagName === "circle") return [[Number(line.getAttribute("cx")), Number(line.getAttribute("cy"))]];
    return line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number));
  }

  function nearest(line, x) {
    const all = points(line);
    let best = 0;
    all.forEach(([left], k) => {
      if (Math.abs(left - x) < Math.abs(all[best][0] - x)) best = k;
    });
    return { k: best, x: all[best][0], y: all[best][1] };
  }

  // Of several lines the one that is nearest to the cursor.
  function found(chart, x, y) {
    const lines = [...chart.querySelectorAll("[data-values]")].map((line) => ({ line, ...nearest(line, x) }));
    const away = (each) => Math.hypot(each.x - x, each.y - y);
    return lines.reduce((best, each) => (best === null || away(each) < away(best) ? each : best), null);
  }

  function show(event) {
    const chart = event.target.closest ? event.target.closest("svg[data-places]") : null;
    const box = chart && chart.getBoundingClientRect();
    const scale = chart && chart.viewBox.baseVal.width / box.width;
    const hit = chart && found(chart, (event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
    tip.hidden = !hit;
    if (!hit) return;
    const { label, values, places } = hit.line.dataset;
    const where = list(places || chart.dataset.places)[hit.k];
    const value = (label ? `${label}: ` : "") + list(values)[hit.k];
    tip.replaceChildren(...[where, value].map((text) => Object.assign(document.createElement("p"), { textContent: text })));
    const left = box.left + hit.x / scale;
    tip.style.left = `${Math.max(4, Math.min(left + 12, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, box.top + hit.y / scale - tip.offsetHeight - 10)}px`;
  }

  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);
})();

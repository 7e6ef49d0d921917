"use strict";
(function () {
  const tip = document.getElementById("tip");
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));

  // Titles become our own tips, which show at once and follow the pointer. Without this script the browser shows them.
  for (const title of all("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  function show(text, event) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
    const y = event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 18;
    tip.style.left = Math.max(4, x) + "px";
    tip.style.top = Math.max(4, y) + "px";
  }
  document.addEventListener("mousemove", (event) => {
    const at = event.target.closest && event.target.closest("[data-tip]");
    if (at) show(at.dataset.tip, event);
    else if (!event.target.closest || !event.target.closest(".liveness")) tip.hidden = true;
  });

  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // A name in a legend lights its parts of the picture.
  for (const key of all("li[data-series], tr[data-series]")) {
    const card = key.closest(".card");
    key.addEventListener("mouseenter", () => {
      card.classList.add("dim");
      for (const part of all("[data-series]", card)) part.classList.toggle("lit", part.dataset.series === key.dataset.series);
    });
    key.addEventListener("mouseleave", () => card.classList.remove("dim"));
  }

  function pick(ipu) {
    for (const panel of all(".ipu")) panel.hidden = panel.dataset.ipu !== ipu;
    for (const one of all("[data-pick]")) one.classList.toggle("on", one.dataset.pick === ipu);
  }
  for (const one of all("[data-pick]")) one.addEventListener("click", () => pick(one.dataset.pick));
  const first = document.querySelector("button[data-pick].on");
  if (first) pick(first.dataset.pick);

  for (const plot of all(".liveness")) {
    const data = JSON.parse(plot.dataset.points);
    const left = Number(plot.dataset.left), step = Number(plot.dataset.step);
    const svg = plot.querySelector("svg"), cursor = plot.querySelector(".cursor");
    plot.addEventListener("mousemove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const index = Math.floor((x - left) / step);
      const point = data.points[index];
      if (!point) return;
      const at = left + (index + 0.5) * step;
      cursor.setAttribute("x1", at);
      cursor.setAttribute("x2", at);
      cursor.style.visibility = "visible";
      const [op, module, phase, live, temporary] = point;
      const mib = (value) => value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 }) + " MiB";
      show(
        data.names[op] + "\n" + data.names[module] + ", " + data.names[phase] + "\n" +
        "live " + mib(live) + ", temporary " + mib(temporary) + "\nwith what is always live " + mib(data.base + live + temporary), event);
    });
    plot.addEventListener("mouseleave", () => { cursor.style.visibility = "hidden"; tip.hidden = true; });
  }

  for (const button of all("[data-view]")) {
    button.addEventListener("click", () => {
      for (const other of all("[data-view]")) other.classList.toggle("on", other === button);
      for (const panel of all("[data-panel]")) panel.hidden = panel.dataset.panel !== button.dataset.view;
    });
  }

  for (const svg of all(".icicle")) {
    const width = svg.viewBox.baseVal.width;
    svg.addEventListener("click", (event) => {
      const box = event.target.closest("rect");
      if (!box) return;
      const from = Number(box.dataset.x), share = Number(box.dataset.w);
      for (const part of all("[data-x]", svg)) {
        const x = ((Number(part.dataset.x) - from) / share) * width, w = (Number(part.dataset.w) / share) * width;
        const begin = Math.max(x, 0), end = Math.min(x + w, width);
        if (part.tagName === "rect") {
          part.setAttribute("x", begin);
          part.setAttribute("width", Math.max(0, end - begin - 0.5));
        } else {
          part.setAttribute("x", begin + 4);
          part.classList.toggle("tight", end - begin < 6.6 * part.textContent.length + 6);
        }
      }
    });
  }
})();

"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    sortRows(table.tBodies[0], column, rising);
  }));
}

function sortRows(body, column, rising) {
  const key = (row) => {
    const text = row.cells[column].dataset.value;
    return text === undefined ? row.cells[column].textContent.trim() : Number(text);
  };
  const order = (a, b) => {
    // What was not measured stays at the end, whichever way the rest is sorted.
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    const sign = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : (a > b) - (a < b);
    return rising ? sign : -sign;
  };
  body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
}

document.getElementById("filter").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const run of document.querySelectorAll("details.run")) {
    const text = run.firstElementChild.textContent.toLowerCase();
    run.hidden = !words.every((word) => text.includes(word));
  }
});

for (const details of document.querySelectorAll("details.run")) {
  details.addEventListener("toggle", () => details.open && fill(details, data[details.dataset.run]), { once: true });
}

function fill(details, run) {
  const opened = append(details, "div", { class: "opened" });
  const charts = append(opened, "div", { class: "charts" });
  charts.append(chart("reward", run.steps, run.reward, run.eval_reward, null));
  run.costs.forEach((cost, i) => {
    const title = run.costs.length > 1 ? `cost ${i + 1}` : "cost";
    charts.append(chart(title, run.steps, cost, run.eval_costs[i], run.limits[i]));
  });
  const key = append(opened, "p", { class: "caption" });
  append(key, "span", { class: "key train" }, "training episodes");
  if (run.eval_reward.some((value) => value !== null)) append(key, "span", { class: "key eval" }, "deterministic policy");
  if (run.limits.some((limit) => limit !== null)) append(key, "span", { class: "key limit" }, "cost limit");
  const films = append(opened, "div", { class: "films" });
  for (const film of run.films) {
    if (film.source.startsWith("data:image") || film.source.endsWith(".gif")) {
      append(films, "img", { src: film.source, alt: film.name, title: film.name });
    } else {
      append(films, "video", { src: film.source, controls: "", title: film.name });
    }
  }
  append(opened, "pre", {}, JSON.stringify(run.settings, null, 2));
}

function append(parent, tag, attributes, text = "") {
  const svg = tag === "svg" || parent instanceof SVGElement;
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  parent.append(element);
  return element;
}

function chart(title, steps, train, evaluated, limit) {
  const width = 520, height = 240, left = 52, right = 22, top = 26, bottom = 34;
  const values = [...train, ...evaluated, limit].filter((value) => value !== null);
  const yTicks = ticks(Math.min(...values, title === "reward" ? Infinity : 0), Math.max(...values), 5);
  const xTicks = ticks(0, Math.max(...steps), 5);
  const [low, high] = [Math.min(yTicks[0], ...values), Math.max(yTicks.at(-1), ...values)];
  const x = (step) => left + ((width - left - right) * step) / Math.max(xTicks.at(-1), steps.at(-1));
  const y = (value) => height - bottom - ((height - top - bottom) * (value - low)) / (high - low || 1);
  const svg = append(document.createElement("div"), "svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  append(svg, "title", {}, `${title} over environment steps`);
  append(svg, "text", { x: left, y: 14, class: "title" }, title);
  append(svg, "text", { x: width - right, y: height - 4, "text-anchor": "end" }, "environment steps");
  for (const tick of yTicks) {
    append(svg, "line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "axis" });
    append(svg, "text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick));
  }
  for (const tick of xTicks) {
    append(svg, "text", { x: x(tick), y: height - bottom + 15, "text-anchor": "middle" }, short(tick));
  }
  if (limit !== null) append(svg, "line", { x1: left, x2: width - right, y1: y(limit), y2: y(limit), class: "limit" });
  append(svg, "path", { d: line(steps, evaluated, x, y), class: "eval" });
  append(svg, "path", { d: line(steps, train, x, y), class: "train" });
  return svg;
}

function line(steps, values, x, y) {
  const points = values.map((value, i) => value === null ? null : `${x(steps[i]).toFixed(1)} ${y(value).toFixed(1)}`);
  return points.filter((point) => point !== null).map((point, i) => (i ? "L" : "M") + point).join("");
}

function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

function short(value) {
  const [size, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]].find(([s]) => Math.abs(value) >= s) ?? [1, ""];
  return `${Number((value / size).toPrecision(4))}${letter}`;
}

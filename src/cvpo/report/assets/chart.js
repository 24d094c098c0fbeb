// Charts by uPlot: curves over a common axis, and points in a plane. What the pointer, a finger or the keyboard rests on
// is told in words.

/** An axis that is straight up to twice the limit and logarithmic beyond, where costs go far beyond the limit. */
function costScale(limit, highest, far = 5) {
  if (!(limit > 0) || highest <= far * limit) return null;
  const bend = 2 * limit;
  const multiples = [0, 1, ...Array.from({ length: 9 }, (_, power) => [2, 5, 10].map((m) => m * 10 ** power)).flat()];
  return {
    distr: 100,
    fwd: (v) => (v <= bend ? v : bend * (1 + Math.log10(v / bend))),
    bwd: (v) => (v <= bend ? v : bend * 10 ** (v / bend - 1)),
    splits: (u, axis, low, high) => multiples.map((m) => m * limit).filter((v) => v >= low && v <= high),
  };
}

function padded(low, high, share = 0.06) {
  const span = high - low || Math.abs(high) || 1;
  return [low - share * span, high + share * span];
}

function chartAxes(xName, yName, xText, yText, splits = {}) {
  const common = {
    stroke: pageColor("soft"),
    grid: { stroke: pageColor("line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
    labelSize: 20,
    labelGap: 2,
  };
  const own = (splits) => (splits ? { splits, filter: (u, values) => values } : {});
  const texts = (text) => (u, values) => values.map((value) => (value === null ? "" : text(value)));
  return [
    { ...common, label: xName, size: 26, gap: 4, space: 60, values: texts(xText), ...own(splits.x) },
    { ...common, ...(yName ? { label: yName } : { labelSize: 0 }), size: 48, gap: 4, space: 34, values: texts(yText), ...own(splits.y) },
  ];
}

/**
 * Curves over x in `target`.
 *
 * curves: {name, color, dash, width, values, low, high}, each of the length of x; low and high shade a band.
 * range: [from, to] of x that is shown, null for all; onRange is told when the reader zooms.
 */
function curveChart(target, { name, x, xName, xText, yName, curves, limit = null, logarithmic = false, height = 300, range = null, onRange = () => {} }) {
  const all = curves.flatMap((curve) => curve.values).filter((value) => value !== null);
  if (!all.length) return nothing(target, `Nothing was logged of ${yName} here.`);
  const values = [...curves].flatMap((curve) => [curve.values, ...(curve.low ? [curve.low, curve.high] : [])]);
  const series = [{}], bands = [];
  for (const curve of curves) {
    const dots = { size: 5, fill: curve.color, stroke: curve.color, space: 30 };
    series.push({ stroke: curve.color, width: curve.width ?? 1.8, dash: curve.dash, spanGaps: true, points: dots });
    if (curve.low) {
      const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
      series.push(edge, { ...edge });
      bands.push({ series: [series.length - 1, series.length - 2], fill: faded(curve.color, 0.16) });
    }
  }
  const places = []; // of each curve among the series
  for (let i = 1, c = 0; c < curves.length; c++) { places.push(i); i += curves[c].low ? 3 : 1; }
  const bent = logarithmic ? null : limit === null ? null : costScale(limit, Math.max(...all));
  const positive = all.every((value) => value > 0);
  const yRange = (u, low, high) => {
    if (low === null) return [0, 1];
    if (logarithmic) return positive ? uPlot.rangeLog(low, high, 10, false) : uPlot.rangeAsinh(low, high, 10, true);
    const marks = limit === null ? [] : [0, limit];
    return bent ? [0, high * 1.1] : padded(Math.min(low, ...marks), Math.max(high, ...marks));
  };
  const yScale = logarithmic ? { distr: positive ? 3 : 4 } : bent ? { distr: 100, fwd: bent.fwd, bwd: bent.bwd } : {};
  const whole = x.length > 1 ? [Math.min(0, x[0]), x.at(-1)] : padded(x[0], x[0], 0.5);

  const tell = (u, left, top) => {
    const rows = curves.map((curve, c) => {
      const at = u.cursor.idxs?.[places[c]] ?? null;
      const value = at === null ? null : curve.values[at];
      if (value === null) return null;
      const text = curve.low ? `${amount(value)} ± ${amount(curve.high[at] - value)}` : amount(value);
      return { color: curve.color, name: curve.name, text, value, distance: Math.abs(u.valToPos(value, "y") - top) };
    }).filter((row) => row !== null);
    if (!rows.length || u.cursor.idx === null) return null;
    const near = Math.min(...rows.map((row) => row.distance));
    rows.sort((a, b) => b.value - a.value).forEach((row) => { row.near = row.distance === near; });
    return { title: `${xName} ${xText(x[u.cursor.idx])}`, rows };
  };
  const step = (u, direction) => {
    const [from, to] = [u.scales.x.min, u.scales.x.max];
    const shown = x.map((value, i) => i).filter((i) => x[i] >= from && x[i] <= to);
    if (!shown.length) return null;
    const now = shown.indexOf(u.cursor.idx ?? -1);
    const next = now < 0 ? (direction > 0 ? 0 : shown.length - 1) : Math.max(0, Math.min(shown.length - 1, now + direction));
    return { left: u.valToPos(x[shown[next]], "x"), top: u.over.clientHeight / 3 };
  };
  return makeChart(target, name, height, {
    series,
    bands,
    axes: chartAxes(xName, yName, xText, short, { y: bent?.splits }),
    scales: { x: { time: false, range: (u, low, high) => (low === null || (low === x[0] && high === x.at(-1)) ? whole : [low, high]) }, y: { range: yRange, ...yScale } },
    cursor: { drag: { x: true, y: false }, points: { size: 7 }, hover: { prox: 40, skip: [null, undefined] }, y: false },
    hooks: { draw: [(u) => limit !== null && dashedLine(u, limit)] },
  }, [x, ...values], { tell, step, whole, range, onRange });
}

/** Points {x: [mean, low, high], y: the same, seeds, name, color} in `target`, and shaded the x within the limit. */
function planeChart(target, { name, xName, yName, points, limit, height = 300 }) {
  const shown = points.filter((point) => point.x[0] !== null && point.y[0] !== null);
  if (!shown.length) return nothing(target, "No method is chosen that has values here.");
  const xs = shown.flatMap((point) => [point.x[0], ...point.seeds.map((seed) => seed[0])]).filter((v) => v !== null);
  const ys = shown.flatMap((point) => [point.y[0], ...point.seeds.map((seed) => seed[1])]).filter((v) => v !== null);
  const bent = limit === null ? null : costScale(limit, Math.max(...xs), 3);
  const lowest = Math.min(0, ...xs);
  const right = Math.max(...xs, limit ?? 0);
  const ranges = { x: [lowest, right + 0.08 * (right - lowest || 1)], y: padded(Math.min(...ys), Math.max(...ys), 0.12) };
  const order = [...shown].sort((a, b) => a.x[0] - b.x[0]);
  let at = -1; // the point that the keyboard is on

  const near = (u, left, top) => {
    const far = (point) => Math.hypot(u.valToPos(point.x[0], "x") - left, u.valToPos(point.y[0], "y") - top);
    const found = order.reduce((a, b) => (far(b) < far(a) ? b : a));
    return far(found) < 40 ? found : null;
  };
  const tell = (u, left, top) => {
    const point = near(u, left, top);
    return point && { title: point.name, rows: [
      { color: point.color, name: yName, text: interval(point.y) },
      { color: point.color, name: xName, text: interval(point.x) },
      ...point.words.map((text) => ({ color: null, name: "", text })),
    ] };
  };
  const step = (u, direction) => {
    at = Math.max(0, Math.min(order.length - 1, at < 0 ? (direction > 0 ? 0 : order.length - 1) : at + direction));
    return { left: u.valToPos(order[at].x[0], "x"), top: u.valToPos(order[at].y[0], "y") };
  };
  return makeChart(target, name, height, {
    series: [{}, { paths: () => null, points: { show: false } }],
    axes: chartAxes(xName, yName, short, short, { x: bent?.splits }),
    scales: {
      x: { time: false, range: (u, low, high) => (u.zoomed ? [low, high] : ranges.x), ...(bent ? { distr: 100, fwd: bent.fwd, bwd: bent.bwd } : {}) },
      y: { auto: false, min: ranges.y[0], max: ranges.y[1] },
    },
    cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false }, x: false, y: false },
    hooks: {
      drawClear: [(u) => shadeWithin(u, limit)],
      draw: [(u) => drawPoints(u, shown)],
    },
  }, [order.map((point) => point.x[0]), order.map((point) => point.y[0])], { tell, step, whole: ranges.x, wholeY: ranges.y });
}

function nothing(target, text) {
  target.replaceChildren(element("p", { class: "empty" }, text));
  return null;
}

function shadeWithin(u, limit) {
  const { left, top, width, height } = u.bbox;
  const edge = limit === null ? left + width : Math.min(Math.max(u.valToPos(limit, "x", true), left), left + width);
  u.ctx.save();
  u.ctx.fillStyle = pageColor("within");
  u.ctx.fillRect(left, top, edge - left, height);
  if (limit !== null && edge < left + width) {
    u.ctx.strokeStyle = pageColor("ink");
    u.ctx.lineWidth = uPlot.pxRatio;
    u.ctx.setLineDash([5 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
    u.ctx.beginPath();
    u.ctx.moveTo(edge, top);
    u.ctx.lineTo(edge, top + height);
    u.ctx.stroke();
  }
  u.ctx.restore();
}

function dashedLine(u, value) {
  const { left, top, width, height } = u.bbox;
  const y = u.valToPos(value, "y", true);
  if (!(y >= top && y <= top + height)) return;
  u.ctx.save();
  u.ctx.strokeStyle = pageColor("ink");
  u.ctx.lineWidth = 1.2 * uPlot.pxRatio;
  u.ctx.setLineDash([5 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
  u.ctx.beginPath();
  u.ctx.moveTo(left, y);
  u.ctx.lineTo(left + width, y);
  u.ctx.stroke();
  u.ctx.restore();
}

function drawPoints(u, points) {
  const ratio = uPlot.pxRatio;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const dot = (x, y, radius) => { ctx.beginPath(); ctx.arc(x, y, radius * ratio, 0, 2 * Math.PI); ctx.fill(); };
  const place = (value, scale) => u.valToPos(value, scale, true);
  for (const point of points) {
    const [x, y] = [place(point.x[0], "x"), place(point.y[0], "y")];
    ctx.strokeStyle = ctx.fillStyle = faded(point.color, 0.5);
    ctx.lineWidth = 1.5 * ratio;
    for (const seed of point.seeds) if (seed[0] !== null && seed[1] !== null) dot(place(seed[0], "x"), place(seed[1], "y"), 1.8);
    ctx.beginPath();
    if (point.bars && point.x[1] !== null) { ctx.moveTo(place(Math.max(point.x[1], u.scales.x.min), "x"), y); ctx.lineTo(place(point.x[2], "x"), y); }
    if (point.bars && point.y[1] !== null) { ctx.moveTo(x, place(point.y[1], "y")); ctx.lineTo(x, place(point.y[2], "y")); }
    ctx.stroke();
    ctx.fillStyle = point.color;
    dot(x, y, point.best ? 6.5 : 4.5);
    if (point.best) { ctx.strokeStyle = pageColor("ink"); ctx.beginPath(); ctx.arc(x, y, 6.5 * ratio, 0, 2 * Math.PI); ctx.stroke(); }
  }
  drawNames(u, points, place);
  ctx.restore();
}

/** The name beside each point, on the side where there is room; left out where it would cover another. */
function drawNames(u, points, place) {
  const { ctx, bbox } = u;
  const ratio = uPlot.pxRatio;
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const taken = points.map((point) => {
    const [x, y] = [place(point.x[0], "x"), place(point.y[0], "y")];
    return [x - 6 * ratio, y - 6 * ratio, x + 6 * ratio, y + 6 * ratio];
  });
  const free = (box, own) => box[0] >= bbox.left && box[2] <= bbox.left + bbox.width && box[1] >= bbox.top && box[3] <= bbox.top + bbox.height
    && taken.every((other, i) => i === own || box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
  points.map((point, i) => [point, i]).sort((a, b) => b[0].best - a[0].best).forEach(([point, i]) => {
    const [x, y] = [place(point.x[0], "x"), place(point.y[0], "y")];
    const width = ctx.measureText(point.name).width;
    const half = 7 * ratio, gap = 9 * ratio;
    const tries = [[x + gap, y], [x - gap - width, y], [x - width / 2, y - 16 * ratio], [x - width / 2, y + 16 * ratio], [x + gap, y - 12 * ratio], [x + gap, y + 12 * ratio]];
    const found = tries.find(([left, middle]) => free([left, middle - half, left + width, middle + half], i));
    if (!found) return;
    taken.push([found[0], found[1] - half, found[0] + width, found[1] + half]);
    ctx.fillStyle = pageColor("ink");
    ctx.fillText(point.name, found[0], found[1]);
  });
}

const liveCharts = new Set(); // to be fitted to the window, and destroyed when their place is needed

/** A uPlot in `target` that fits its width; tell(u, left, top) says what is there, step(u, ±1) where the keyboard goes. */
function makeChart(target, name, height, options, data, { tell, step, whole, wholeY = null, range = null, onRange = () => {} }) {
  const keys = "arrow keys move along it, plus and minus zoom, 0 shows all";
  const frame = element("div", { class: "frame", tabindex: 0, role: "group", "aria-label": `Chart: ${name}. ${keys}` });
  const tip = element("div", { class: "tip", hidden: true });
  const spoken = element("div", { class: "spoken", "aria-live": "polite" });
  const all = element("button", { type: "button", class: "all", hidden: true, onclick: () => zoom(null) }, "show all");
  frame.append(spoken, all);
  target.replaceChildren(frame);
  let quiet = true; // what the program does is no zoom of the reader's

  const chart = new uPlot({
    ...options,
    width: target.clientWidth || 400,
    height,
    legend: { show: false },
    padding: [10, 14, 0, 0],
    hooks: {
      ...options.hooks,
      setCursor: [(u) => showTip(u, u.cursor.left, u.cursor.top)],
      setScale: [(u, key) => {
        if (key !== "x" || quiet) return;
        const zoomed = Math.abs(u.scales.x.min - whole[0]) + Math.abs(u.scales.x.max - whole[1]) > 1e-9 * (whole[1] - whole[0]);
        all.hidden = !zoomed;
        onRange(zoomed ? [u.scales.x.min, u.scales.x.max] : null);
      }],
      setSelect: [(u) => { u.zoomed = true; }],
    },
  }, data, frame);
  chart.over.append(tip);
  chart.over.addEventListener("dblclick", () => zoom(null));

  function zoom(wanted) {
    chart.zoomed = true; // the ranges are taken as they are given
    chart.setScale("x", { min: (wanted ?? whole)[0], max: (wanted ?? whole)[1] });
    if (wholeY && !wanted) chart.setScale("y", { min: wholeY[0], max: wholeY[1] });
  }

  function showTip(u, left, top) {
    const told = left === undefined || left < 0 ? null : tell(u, left, top);
    tip.hidden = !told;
    if (!told) return;
    const rows = told.rows.slice(0, 14).map((row) => {
      const mark = element("span", { class: "swatch" });
      if (row.color) mark.style.background = row.color;
      return element("div", { class: row.near ? "near" : null }, row.color ? mark : null, row.name, " ", element("b", {}, row.text));
    });
    tip.replaceChildren(element("div", { class: "tip-title" }, told.title), ...rows);
    const flip = left > u.over.clientWidth / 2;
    tip.style.left = flip ? "" : `${left + 14}px`;
    tip.style.right = flip ? `${u.over.clientWidth - left + 14}px` : "";
    tip.style.top = `${Math.max(0, Math.min(top - 20, u.over.clientHeight - tip.offsetHeight))}px`;
  }

  function zoomBy(factor, middle) {
    const { min, max } = chart.scales.x;
    const from = Math.max(whole[0], middle - (middle - min) * factor), to = Math.min(whole[1], middle + (max - middle) * factor);
    if (to > from) zoom(from <= whole[0] && to >= whole[1] ? null : [from, to]);
  }

  frame.addEventListener("keydown", (event) => {
    const { min, max } = chart.scales.x;
    const middle = chart.cursor.left >= 0 ? chart.posToVal(chart.cursor.left, "x") : (min + max) / 2;
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (direction) {
      const place = step(chart, direction);
      if (place) {
        chart.setCursor(place);
        spoken.textContent = tip.hidden ? "" : tip.innerText;
      }
    } else if (event.key === "+" || event.key === "=") zoomBy(0.6, middle);
    else if (event.key === "-") zoomBy(1 / 0.6, middle);
    else if (event.key === "0") zoom(null);
    else if (event.key === "Escape") chart.setCursor({ left: -10, top: -10 });
    else return;
    event.preventDefault();
  });
  fingers(chart, zoomBy);
  quiet = false;
  if (range) zoom(range);
  liveCharts.add({ chart, target, height });
  return { chart, zoom };
}

/** One finger reads, two zoom; up and down still scroll the page. */
function fingers(chart, zoomBy) {
  let apart = 0;
  const at = (touch) => touch.clientX - chart.over.getBoundingClientRect().left;
  const spread = (touches) => Math.abs(at(touches[0]) - at(touches[1]));
  chart.over.addEventListener("touchstart", (event) => { apart = event.touches.length === 2 ? spread(event.touches) : 0; }, { passive: true });
  chart.over.addEventListener("touchmove", (event) => {
    if (event.touches.length === 2 && apart > 0) {
      event.preventDefault();
      const now = Math.max(spread(event.touches), 1);
      zoomBy(apart / now, chart.posToVal((at(event.touches[0]) + at(event.touches[1])) / 2, "x"));
      apart = now;
    } else if (event.touches.length === 1) {
      const box = chart.over.getBoundingClientRect();
      chart.setCursor({ left: at(event.touches[0]), top: event.touches[0].clientY - box.top });
    }
  }, { passive: false });
}

/** Let go of charts whose place is no longer on the page. */
function dropCharts() {
  for (const item of liveCharts) {
    if (!item.target.isConnected || !item.target.contains(item.chart.root)) {
      item.chart.destroy();
      liveCharts.delete(item);
    }
  }
}

addEventListener("resize", () => {
  dropCharts();
  for (const { chart, target, height } of liveCharts) if (target.clientWidth) chart.setSize({ width: target.clientWidth, height });
});

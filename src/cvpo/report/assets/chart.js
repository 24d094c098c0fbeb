// What all charts share: uPlot in its place on the page, with axes, and in words what the pointer, a finger or the
// keyboard rests on.

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

function chartAxes(xName, yName, xText, yText, splits = {}, xSteps = null) {
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
    {
      ...common,
      label: xName,
      size: 26,
      gap: 4,
      space: 60,
      values: texts(xText),
      ...own(splits.x),
      ...(xSteps ? { incrs: xSteps } : {}),
    },
    {
      ...common,
      ...(yName ? { label: yName } : { labelSize: 0 }),
      size: 48,
      gap: 4,
      space: 34,
      values: texts(yText),
      ...own(splits.y),
    },
  ];
}

/** From one place to another, in pixels of the canvas. */
function dashedLine(u, from, to) {
  u.ctx.save();
  u.ctx.strokeStyle = pageColor("ink");
  u.ctx.lineWidth = 1.2 * uPlot.pxRatio;
  u.ctx.setLineDash([5 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
  u.ctx.beginPath();
  u.ctx.moveTo(...from);
  u.ctx.lineTo(...to);
  u.ctx.stroke();
  u.ctx.restore();
}

function nothing(target, text) {
  target.replaceChildren(element("p", { class: "empty" }, text));
  return null;
}

const liveCharts = new Set(); // to be fitted to the window, and destroyed when their place is needed

/**
 * A uPlot in `target` that fits its width. tell(u, left, top) says what is there, step(u, ±1) where the keyboard goes;
 * whole and wholeY are the ranges that show all, range what is shown of x, and onRange is told when the reader zooms.
 */
function makeChart(
  target,
  name,
  height,
  options,
  data,
  { tell, step, whole, wholeY = null, range = null, onRange = () => {} },
) {
  const keys = "arrow keys move along it, plus and minus zoom, 0 shows all";
  const frame = element("div", { class: "frame", tabindex: 0, role: "group", "aria-label": `Chart: ${name}. ${keys}` });
  const tip = element("div", { class: "tip", hidden: true });
  const spoken = element("div", { class: "spoken", "aria-live": "polite" });
  const all = element("button", { type: "button", class: "all", hidden: true, onclick: () => zoom(null) }, "show all");
  frame.append(spoken, all);
  target.replaceChildren(frame);
  let quiet = true; // what the program does is no zoom of the reader's

  const chart = new uPlot(
    {
      ...options,
      width: target.clientWidth || 400,
      height,
      legend: { show: false },
      padding: [10, 14, 0, 0],
      hooks: {
        ...options.hooks,
        setCursor: [(u) => showTip(u, u.cursor.left, u.cursor.top)],
        setScale: [
          (u, key) => {
            if (key !== "x" || quiet) return;
            const zoomed =
              Math.abs(u.scales.x.min - whole[0]) + Math.abs(u.scales.x.max - whole[1]) > 1e-9 * (whole[1] - whole[0]);
            all.hidden = !zoomed;
            onRange(zoomed ? [u.scales.x.min, u.scales.x.max] : null);
          },
        ],
        setSelect: [
          (u) => {
            u.zoomed = true;
          },
        ],
      },
    },
    data,
    frame,
  );
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
      return element(
        "div",
        { class: row.near ? "near" : null },
        row.color ? mark : null,
        row.name,
        " ",
        element("b", {}, row.text),
      );
    });
    tip.replaceChildren(element("div", { class: "tip-title" }, told.title), ...rows);
    const flip = left > u.over.clientWidth / 2;
    tip.style.left = flip ? "" : `${left + 14}px`;
    tip.style.right = flip ? `${u.over.clientWidth - left + 14}px` : "";
    tip.style.top = `${Math.max(0, Math.min(top - 20, u.over.clientHeight - tip.offsetHeight))}px`;
  }

  function zoomBy(factor, middle) {
    const { min, max } = chart.scales.x;
    const from = Math.max(whole[0], middle - (middle - min) * factor),
      to = Math.min(whole[1], middle + (max - middle) * factor);
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
  chart.over.addEventListener(
    "touchstart",
    (event) => {
      apart = event.touches.length === 2 ? spread(event.touches) : 0;
    },
    { passive: true },
  );
  chart.over.addEventListener(
    "touchmove",
    (event) => {
      if (event.touches.length === 2 && apart > 0) {
        event.preventDefault();
        const now = Math.max(spread(event.touches), 1);
        zoomBy(apart / now, chart.posToVal((at(event.touches[0]) + at(event.touches[1])) / 2, "x"));
        apart = now;
      } else if (event.touches.length === 1) {
        const box = chart.over.getBoundingClientRect();
        chart.setCursor({ left: at(event.touches[0]), top: event.touches[0].clientY - box.top });
      }
    },
    { passive: false },
  );
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
  for (const { chart, target, height } of liveCharts)
    if (target.clientWidth) chart.setSize({ width: target.clientWidth, height });
});

// Curves of runs as numbers: null stands for what was not measured.

/** The values of a metric of a run; null if it has none. */
function valuesOf(run, metric) {
  if (run.metrics[metric] === undefined) return null;
  run.parsed ??= {};
  run.parsed[metric] ??= run.metrics[metric].split(",").map((text) => (text === "" ? null : Number(text)));
  return run.parsed[metric];
}

/** The mean over the last `share` of the points at each. */
function smoothed(values, share) {
  const width = Math.ceil(share * values.length);
  if (width < 2) return values;
  let sum = 0,
    count = 0;
  return values.map((value, i) => {
    if (value !== null) {
      sum += value;
      count += 1;
    }
    const gone = i >= width ? values[i - width] : null;
    if (gone !== null) {
      sum -= gone;
      count -= 1;
    }
    return value === null || count === 0 ? null : sum / count;
  });
}

/** The points at which to compare curves: all that there are or, if these are too many, evenly spaced ones. */
function commonGrid(axes, most = 400) {
  const all = [...new Set(axes.flat().filter((x) => x !== null))].sort((a, b) => a - b);
  if (all.length <= most) return all;
  const [first, last] = [all[0], all.at(-1)];
  return Array.from({ length: most }, (_, i) => first + ((last - first) * i) / (most - 1));
}

/** The curve through the measured points, straight between them; of points at the same x, the last counts. */
function onGrid(grid, x, y) {
  const points = [];
  for (let i = 0; i < x.length; i++) {
    if (x[i] === null || y[i] === null) continue;
    if (points.length && x[i] <= points.at(-1)[0]) points[points.length - 1][1] = y[i];
    else points.push([x[i], y[i]]);
  }
  let at = 0;
  return grid.map((g) => {
    if (!points.length || g < points[0][0] || g > points.at(-1)[0]) return null;
    while (at < points.length - 2 && points[at + 1][0] < g) at += 1;
    const [x0, y0] = points[at];
    const [x1, y1] = points[Math.min(at + 1, points.length - 1)];
    return x1 === x0 ? y0 : y0 + ((y1 - y0) * (g - x0)) / (x1 - x0);
  });
}

/** Mean and standard deviation at each point of the grid, where at least half of the curves have a value. */
function meanAndDeviation(curves) {
  const mean = [],
    low = [],
    high = [];
  for (let i = 0; i < curves[0].length; i++) {
    const present = curves.map((curve) => curve[i]).filter((value) => value !== null);
    const enough = present.length > 0 && 2 * present.length >= curves.length;
    const middle = enough ? present.reduce((a, b) => a + b, 0) / present.length : null;
    const deviation = enough ? Math.sqrt(present.reduce((a, b) => a + (b - middle) ** 2, 0) / present.length) : null;
    mean.push(middle);
    low.push(enough ? middle - deviation : null);
    high.push(enough ? middle + deviation : null);
  }
  return { mean, low, high };
}

/** "estep/kl" is of the group "estep". */
function groupOf(metric) {
  return metric.includes("/") ? metric.split("/")[0] : "progress";
}

function labelOf(metric, labels) {
  if (metric === "train/within_limit") return "train/within_limit (share of epochs)";
  return labels[metric] ?? metric;
}

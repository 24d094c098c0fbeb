// Curves over a common axis.

/**
 * Curves over x in `target`.
 *
 * curves: {name, color, dash, width, values, low, high}, each of the length of x; low and high shade a band.
 * xSteps: between which the numbers at the axis are chosen.
 * range: [from, to] of x that is shown, null for all; onRange is told when the reader zooms.
 */
function curveChart(
  target,
  {
    name,
    x,
    xName,
    xText,
    xSteps = null,
    yName,
    curves,
    limit = null,
    logarithmic = false,
    height = 300,
    range = null,
    onRange = () => {},
  },
) {
  const all = curves.flatMap((curve) => curve.values).filter((value) => value !== null);
  if (!all.length) return nothing(target, `Nothing was logged${yName ? ` of ${yName}` : ""} here.`);
  const values = [...curves].flatMap((curve) => [curve.values, ...(curve.low ? [curve.low, curve.high] : [])]);
  const series = [{}],
    bands = [];
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
  for (let i = 1, c = 0; c < curves.length; c++) {
    places.push(i);
    i += curves[c].low ? 3 : 1;
  }
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
    const rows = curves
      .map((curve, c) => {
        const at = u.cursor.idxs?.[places[c]] ?? null;
        const value = at === null ? null : curve.values[at];
        if (value === null) return null;
        const text = curve.low ? `${amount(value)} ± ${amount(curve.high[at] - value)}` : amount(value);
        return { color: curve.color, name: curve.name, text, value, distance: Math.abs(u.valToPos(value, "y") - top) };
      })
      .filter((row) => row !== null);
    if (!rows.length || u.cursor.idx === null) return null;
    const near = Math.min(...rows.map((row) => row.distance));
    rows
      .sort((a, b) => b.value - a.value)
      .forEach((row) => {
        row.near = row.distance === near;
      });
    return { title: `${xName} ${xText(x[u.cursor.idx])}`, rows };
  };
  const step = (u, direction) => {
    const [from, to] = [u.scales.x.min, u.scales.x.max];
    const shown = x.map((value, i) => i).filter((i) => x[i] >= from && x[i] <= to);
    if (!shown.length) return null;
    const now = shown.indexOf(u.cursor.idx ?? -1);
    const next =
      now < 0 ? (direction > 0 ? 0 : shown.length - 1) : Math.max(0, Math.min(shown.length - 1, now + direction));
    return { left: u.valToPos(x[shown[next]], "x"), top: u.over.clientHeight / 3 };
  };
  return makeChart(
    target,
    name,
    height,
    {
      series,
      bands,
      axes: chartAxes(xName, yName, xText, short, { y: bent?.splits }, xSteps),
      scales: {
        x: {
          time: false,
          range: (u, low, high) => (low === null || (low === x[0] && high === x.at(-1)) ? whole : [low, high]),
        },
        y: { range: yRange, ...yScale },
      },
      cursor: {
        drag: { x: true, y: false },
        points: { size: 7 },
        hover: { prox: 40, skip: [null, undefined] },
        y: false,
      },
      hooks: { draw: [(u) => limit !== null && drawLimit(u, limit)] },
    },
    [x, ...values],
    { tell, step, whole, range, onRange },
  );
}

function drawLimit(u, limit) {
  const { left, top, width, height } = u.bbox;
  const y = u.valToPos(limit, "y", true);
  if (y >= top && y <= top + height) dashedLine(u, [left, y], [left + width, y]);
}

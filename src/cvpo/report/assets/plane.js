// Points in the plane of reward and cost, and the part of it that is within the limit.

/** Points {x: [mean, low, high], y: the same, seeds, name, color} in `target`, and shaded the x within the limit. */
function planeChart(target, { name, xName, yName, points, limit, height = 300 }) {
  const shown = points.filter((point) => point.x[0] !== null && point.y[0] !== null);
  if (!shown.length) return nothing(target, "No method is chosen that has values here.");
  const xs = shown.flatMap((point) => [point.x[0], ...point.seeds.map((seed) => seed[0])]).filter((v) => v !== null);
  const ys = shown.flatMap((point) => [point.y[0], ...point.seeds.map((seed) => seed[1])]).filter((v) => v !== null);
  const bent = limit === null ? null : costScale(limit, Math.max(...xs), 3);
  const lowest = Math.min(0, ...xs);
  const right = Math.max(...xs, limit ?? 0);
  const margin = 0.03 * ((bent ? bent.fwd(right) : right) - lowest || 1); // so that a point at 0 is whole
  const ranges = {
    x: [lowest - margin, right + 0.08 * (right - lowest || 1)],
    y: padded(Math.min(...ys), Math.max(...ys), 0.12),
  };
  const order = [...shown].sort((a, b) => a.x[0] - b.x[0]);
  let at = -1; // the point that the keyboard is on

  const near = (u, left, top) => {
    const far = (point) => Math.hypot(u.valToPos(point.x[0], "x") - left, u.valToPos(point.y[0], "y") - top);
    const found = order.reduce((a, b) => (far(b) < far(a) ? b : a));
    return far(found) < 40 ? found : null;
  };
  const tell = (u, left, top) => {
    const point = near(u, left, top);
    return (
      point && {
        title: point.name,
        rows: [
          { color: point.color, name: yName, text: interval(point.y) },
          { color: point.color, name: xName, text: interval(point.x) },
          ...point.words.map((text) => ({ color: null, name: "", text })),
        ],
      }
    );
  };
  const step = (u, direction) => {
    at = Math.max(0, Math.min(order.length - 1, at < 0 ? (direction > 0 ? 0 : order.length - 1) : at + direction));
    return { left: u.valToPos(order[at].x[0], "x"), top: u.valToPos(order[at].y[0], "y") };
  };
  return makeChart(
    target,
    name,
    height,
    {
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: chartAxes(xName, yName, short, short, { x: bent?.splits }),
      scales: {
        x: {
          time: false,
          range: (u, low, high) => (u.zoomed ? [low, high] : ranges.x),
          ...(bent ? { distr: 100, fwd: bent.fwd, bwd: bent.bwd } : {}),
        },
        y: { auto: false, min: ranges.y[0], max: ranges.y[1] },
      },
      cursor: { drag: { x: true, y: true, uni: 30 }, points: { show: false }, x: false, y: false },
      hooks: {
        drawClear: [(u) => shadeWithin(u, limit)],
        draw: [
          (u) =>
            limit !== null &&
            dashedLine(u, [limitEdge(u, limit), u.bbox.top], [limitEdge(u, limit), u.bbox.top + u.bbox.height]),
          (u) => drawPoints(u, shown),
        ],
      },
    },
    [order.map((point) => point.x[0]), order.map((point) => point.y[0])],
    { tell, step, whole: ranges.x, wholeY: ranges.y },
  );
}

/** Where the limit is, in pixels of the canvas. */
function limitEdge(u, limit) {
  return Math.min(Math.max(u.valToPos(limit, "x", true), u.bbox.left), u.bbox.left + u.bbox.width);
}

function shadeWithin(u, limit) {
  if (limit === null) return;
  const { left, top, height } = u.bbox;
  u.ctx.fillStyle = pageColor("within");
  u.ctx.fillRect(left, top, limitEdge(u, limit) - left, height);
}

function drawPoints(u, points) {
  const ratio = uPlot.pxRatio;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const dot = (x, y, radius) => {
    ctx.beginPath();
    ctx.arc(x, y, radius * ratio, 0, 2 * Math.PI);
    ctx.fill();
  };
  const place = (value, scale) => u.valToPos(value, scale, true);
  for (const point of points) {
    const [x, y] = [place(point.x[0], "x"), place(point.y[0], "y")];
    ctx.strokeStyle = ctx.fillStyle = faded(point.color, 0.5);
    ctx.lineWidth = 1.5 * ratio;
    for (const seed of point.seeds)
      if (seed[0] !== null && seed[1] !== null) dot(place(seed[0], "x"), place(seed[1], "y"), 1.8);
    ctx.beginPath();
    if (point.bars && point.x[1] !== null) {
      ctx.moveTo(place(Math.max(point.x[1], u.scales.x.min), "x"), y);
      ctx.lineTo(place(point.x[2], "x"), y);
    }
    if (point.bars && point.y[1] !== null) {
      ctx.moveTo(x, place(point.y[1], "y"));
      ctx.lineTo(x, place(point.y[2], "y"));
    }
    ctx.stroke();
    ctx.fillStyle = point.color;
    dot(x, y, point.best ? 6.5 : 4.5);
    if (point.best) {
      ctx.strokeStyle = pageColor("ink");
      ctx.beginPath();
      ctx.arc(x, y, 6.5 * ratio, 0, 2 * Math.PI);
      ctx.stroke();
    }
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
  const free = (box, own) =>
    box[0] >= bbox.left &&
    box[2] <= bbox.left + bbox.width &&
    box[1] >= bbox.top &&
    box[3] <= bbox.top + bbox.height &&
    taken.every(
      (other, i) => i === own || box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3],
    );
  points
    .map((point, i) => [point, i])
    .sort((a, b) => b[0].best - a[0].best)
    .forEach(([point, i]) => {
      const [x, y] = [place(point.x[0], "x"), place(point.y[0], "y")];
      const width = ctx.measureText(point.name).width;
      const half = 7 * ratio,
        gap = 9 * ratio;
      const tries = [
        [x + gap, y],
        [x - gap - width, y],
        [x - width / 2, y - 16 * ratio],
        [x - width / 2, y + 16 * ratio],
        [x + gap, y - 12 * ratio],
        [x + gap, y + 12 * ratio],
      ];
      const found = tries.find(([left, middle]) => free([left, middle - half, left + width, middle + half], i));
      if (!found) return;
      taken.push([found[0], found[1] - half, found[0] + width, found[1] + half]);
      ctx.fillStyle = pageColor("ink");
      ctx.fillText(point.name, found[0], found[1]);
    });
}

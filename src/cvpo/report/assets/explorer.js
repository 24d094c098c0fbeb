// The curves of a task's methods, or of chosen runs: any metric, over steps, cost or time.

const AXES = { steps: "environment steps", wall: "wall time" };
// Round numbers of seconds, minutes, hours and days.
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800];

function renderExplorer(data, state) {
  const section = byId("curves");
  section.hidden = !data.tasks.length;
  if (!data.tasks.length) return;
  if (!data.tasks.some((task) => task.name === state.task)) state.task = data.tasks[0].name;
  const task = data.tasks.find((item) => item.name === state.task);
  const runs = data.runs.filter((run) => data.tasks[run.task].name === state.task);
  fillSelect(
    byId("task"),
    data.tasks.map((item) => [item.name, item.name]),
    state.task,
  );
  const costs = task.cumulative.map((metric, c) => [
    metric,
    task.costs.length > 1 ? `cumulative ${task.costs[c]}` : "cumulative cost",
  ]);
  const axes = [["steps", AXES.steps], ...costs, ["wall", AXES.wall]];
  if (!axes.some(([value]) => value === state.xAxis)) state.xAxis = "steps";
  fillSelect(byId("x-axis"), axes, state.xAxis);
  const metrics = metricsOf(runs);
  const defaults = ["train/reward", task.costMetrics[0]];
  [...section.querySelectorAll("select.metric")].forEach((select, i) => {
    if (!metrics.some(([metric]) => metric === state.metrics[i])) {
      state.metrics[i] = metrics.some(([metric]) => metric === defaults[i]) ? defaults[i] : metrics[0][0];
    }
    fillSelect(select, metrics, state.metrics[i], true);
  });
  byId("methods").replaceChildren(...methodChips(data, state, runs));
  const chosen = data.runs.filter((run) => state.chosen.has(run.id));
  byId("chosen").replaceChildren(
    ...(chosen.length ? [element("span", {}, "Laid over:")] : []),
    ...chosen.map((run) =>
      chip(data.methods[run.method], `${runName(data, run)} ×`, true, () => {
        state.chosen.delete(run.id);
        render.chosen();
      }),
    ),
  );
  drawPanels(data, state, task, runs, chosen);
}

/** A button for each method of these runs, and one for all of them. */
function methodChips(data, state, runs) {
  const methods = data.methods.filter((_, m) => runs.some((run) => run.method === m));
  const chips = methods.map((method) =>
    chip(method, method.name, !state.hidden.has(method.name), () => {
      state.hidden.has(method.name) ? state.hidden.delete(method.name) : state.hidden.add(method.name);
      render.methods(method.name);
    }),
  );
  const all = methods.every((method) => !state.hidden.has(method.name));
  const onclick = () => {
    methods.forEach((method) => (all ? state.hidden.add(method.name) : state.hidden.delete(method.name)));
    render.methods(all ? "all" : "none");
  };
  const toggle = element("button", { type: "button", class: "plain", onclick }, all ? "none" : "all");
  return methods.length > 2 ? [...chips, toggle] : chips;
}

function drawPanels(data, state, task, runs, chosen) {
  const axis = byId("x-axis").selectedOptions[0].textContent;
  const xText = state.xAxis === "wall" ? duration : short;
  const panels = [];
  [...document.querySelectorAll("#curves .panel")].forEach((panel, i) => {
    const metric = state.metrics[i];
    const { x, curves } = curvesOf(data, state, metric, runs, chosen);
    const label = panel.querySelector("select").selectedOptions[0].textContent;
    panels.push(
      curveChart(panel.querySelector(".chart"), {
        name: `${label} over ${axis} on ${task.name}`,
        x,
        xName: axis,
        xText,
        xSteps: state.xAxis === "wall" ? TIME_STEPS : null,
        yName: label,
        curves,
        limit: task.limitOf[metric] ?? null,
        logarithmic: state.logarithmic,
        height: innerWidth < 700 ? 260 : 340,
        range: state.range,
        onRange: (range) => {
          if (String(range) === String(state.range)) return;
          state.range = range;
          panels.forEach((other, o) => o !== i && other?.zoom(range));
        },
      }),
    );
  });
  dropCharts();
}

/** What a panel draws: a mean for each method or a line for each run, and the chosen runs over them. */
function curvesOf(data, state, metric, runs, chosen) {
  const point = (run) => {
    const x = valuesOf(run, { steps: "steps", wall: "wall_seconds" }[state.xAxis] ?? state.xAxis);
    const y = valuesOf(run, metric);
    return x && y ? { run, x, y: smoothed(y, state.smoothing) } : null;
  };
  const shown = runs
    .filter((run) => !state.hidden.has(data.methods[run.method].name))
    .map(point)
    .filter((item) => item !== null);
  const over = chosen.map(point).filter((item) => item !== null);
  const grid = commonGrid([...shown, ...over].map((item) => item.x));
  const line = (item, width, color) => ({
    name: runName(data, item.run),
    color,
    width,
    dash: data.methods[item.run.method].dash,
    values: onGrid(grid, item.x, item.y),
  });
  const curves = [];
  if (state.draw === "runs") {
    shown.forEach((item) => curves.push(line(item, 1.2, methodColor(data.methods[item.run.method]))));
  } else {
    data.methods.forEach((method, m) => {
      const members = shown.filter((item) => item.run.method === m);
      if (!members.length) return;
      const { mean, low, high } = meanAndDeviation(members.map((item) => onGrid(grid, item.x, item.y)));
      curves.push({
        name: method.name,
        color: methodColor(method),
        dash: method.dash,
        values: mean,
        ...(members.length > 1 ? { low, high } : {}),
      });
    });
  }
  over.forEach((item) => curves.push(line(item, 2.6, methodColor(data.methods[item.run.method]))));
  return { x: grid, curves };
}

/** Every metric that a run has, as [name, label]: the general ones first. */
function metricsOf(runs) {
  const labels = Object.assign({}, ...runs.map((run) => run.labels));
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.metrics)))].filter((name) => name !== "steps");
  const order = ["train", "eval"];
  const rank = (name) => {
    const at = order.indexOf(groupOf(name));
    return at < 0 ? order.length : at;
  };
  const sorted = names.sort((a, b) => rank(a) - rank(b) || groupOf(a).localeCompare(groupOf(b)));
  return sorted.map((name) => [name, labelOf(name, labels)]);
}

function fillSelect(select, options, chosen, grouped = false) {
  const made = options.map(([value, text]) => [value, element("option", { value, selected: value === chosen }, text)]);
  const groups = new Map();
  for (const [value, option] of made) groups.set(groupOf(value), [...(groups.get(groupOf(value)) ?? []), option]);
  select.replaceChildren(
    ...(grouped
      ? [...groups].map(([label, items]) => element("optgroup", { label }, ...items))
      : made.map(([, option]) => option)),
  );
  select.value = chosen;
}

function chip(method, text, pressed, onclick) {
  return element(
    "button",
    { type: "button", class: "chip", "aria-pressed": String(pressed), onclick },
    swatch(method),
    text,
  );
}

function listenToExplorer(state) {
  const redraw = () => render.explorer();
  byId("task").addEventListener("change", (event) => {
    state.task = event.target.value;
    state.range = null;
    redraw();
  });
  byId("x-axis").addEventListener("change", (event) => {
    state.xAxis = event.target.value;
    state.range = null;
    redraw();
  });
  byId("draw").addEventListener("change", (event) => {
    state.draw = event.target.value;
    redraw();
  });
  byId("logarithmic").addEventListener("change", (event) => {
    state.logarithmic = event.target.checked;
    redraw();
  });
  byId("smoothing").addEventListener("input", (event) => {
    state.smoothing = Number(event.target.value) / 100;
    byId("smoothing-shown").textContent = state.smoothing ? `${event.target.value}%` : "none";
    redraw();
  });
  [...document.querySelectorAll("select.metric")].forEach((select, i) =>
    select.addEventListener("change", () => {
      state.metrics[i] = select.value;
      redraw();
    }),
  );
}

// Every run: its state, its metrics by group, its changed settings, its films, its error.

function runName(data, run) {
  const task = data.tasks.length > 1 ? `${data.tasks[run.task].name} · ` : "";
  return `${task}${data.methods[run.method].name} · seed ${run.seed}`;
}

function runState(run) {
  return run.error !== null && !run.finished ? "failed" : run.finished ? "finished" : "unfinished";
}

function renderRuns(data, state) {
  byId("runs").hidden = !data.runs.length;
  const focused = document.activeElement?.closest?.("details.run")?.dataset.run;
  const list = data.runs.map((run) => runEntry(data, state, run));
  byId("run-list").replaceChildren(...list);
  dropCharts();
  list.forEach((entry, i) => {
    if (state.open.has(data.runs[i].id)) fillRun(data, state, data.runs[i], entry);
  });
  list
    .find((entry) => entry.dataset.run === focused)
    ?.querySelector("summary")
    .focus();
  filterRuns(state);
  const out = data.leftOut;
  byId("left-out").hidden = byId("to-left-out").hidden = !out.length;
  byId("left-out-list").replaceChildren(
    ...out.map((item) =>
      element(
        "div",
        { class: "card left-out" },
        element("p", {}, element("b", {}, item.path), `: ${item.reason}`),
        item.error === null ? null : element("pre", { class: "error" }, item.error),
      ),
    ),
  );
}

function runEntry(data, state, run) {
  const known = runState(run);
  const names = run.costs.length > 1 ? data.tasks[run.task].costs : ["cost"];
  const costs = run.costs.map((cost, c) => {
    const limit = run.limits[c] === null ? "" : ` (limit ${amount(run.limits[c])})`;
    return `${names[c]} ${amount(cost)}${limit}`;
  });
  const facts = [
    `reward ${amount(run.reward)}`,
    ...costs,
    `${short(run.steps)}${run.finished ? "" : ` of ${short(run.planned)}`} steps`,
    ...(run.counted ? [] : ["far behind the others: not in the final numbers"]),
    run.path,
  ];
  const box = element("input", {
    type: "checkbox",
    "aria-label": `Lay ${runName(data, run)} over the curves`,
    onchange: () => {
      box.checked ? state.chosen.add(run.id) : state.chosen.delete(run.id);
      render.explorer();
    },
  });
  box.checked = state.chosen.has(run.id);
  const details = element(
    "details",
    {
      class: "run card",
      "data-run": run.id,
      open: state.open.has(run.id),
      ontoggle: () => {
        if (details.open === state.open.has(run.id)) return;
        details.open ? state.open.add(run.id) : state.open.delete(run.id);
        if (details.open) fillRun(data, state, run, details);
      },
    },
    element(
      "summary",
      {},
      swatch(data.methods[run.method]),
      runName(data, run),
      element("span", { class: `state ${known}` }, known),
      element("small", {}, facts.join(" · ")),
    ),
  );
  return element(
    "div",
    { class: "run-row", "data-run": run.id },
    element("label", { class: "lay", title: "lay it over the curves" }, box),
    details,
  );
}

function filterRuns(state) {
  for (const row of document.querySelectorAll(".run-row"))
    row.hidden = !matches(row.textContent.slice(0, 1000), state.runFilter);
}

function fillRun(data, state, run, entry) {
  const details = entry.matches("details") ? entry : entry.querySelector("details");
  details.querySelector(".opened")?.remove();
  const task = data.tasks[run.task];
  const opened = element("div", { class: "opened" });
  details.append(opened);
  if (run.error !== null)
    opened.append(
      element("h3", {}, run.finished ? "Its last error" : "Why it failed"),
      element("pre", { class: "error" }, run.error),
    );
  const main = element("div", { class: "charts" });
  opened.append(main);
  const pairs = [
    ["reward", "train/reward", "eval/reward", null],
    ...task.costMetrics.map((metric, c) => [task.costs[c], metric, metric.replace("train/", "eval/"), run.limits[c]]),
  ];
  for (const [name, trained, evaluated, limit] of pairs) {
    runChart(
      data,
      run,
      main,
      name,
      [
        [trained, "training episodes", pageColor("accent")],
        [evaluated, "deterministic policy", pageColor("eval")],
      ],
      limit,
    );
  }
  if (run.together > 1)
    opened.append(
      element("p", { class: "caption" }, `Each point is the mean of ${run.together} epochs, of ${run.epochs}.`),
    );
  opened.append(element("h3", {}, "All metrics"));
  const groups = new Map();
  for (const [metric] of metricsOf([run]))
    groups.set(groupOf(metric), [...(groups.get(groupOf(metric)) ?? []), metric]);
  for (const [group, metrics] of groups) opened.append(metricGroup(data, state, run, group, metrics));
  opened.append(
    ...changedSettings(run),
    element(
      "details",
      { class: "settings" },
      element("summary", {}, "All settings, and what it ran with"),
      element("pre", {}, JSON.stringify(run.settings, null, 2)),
    ),
  );
  if (run.films.length)
    opened.append(element("h3", {}, "Films"), element("div", { class: "films" }, ...run.films.map(filmOf)));
}

function metricGroup(data, state, run, group, metrics) {
  const key = `${run.id}/${group}`;
  const charts = element("div", { class: "charts small" });
  const fill = () => {
    charts.replaceChildren();
    for (const metric of metrics)
      runChart(data, run, charts, labelOf(metric, run.labels), [[metric, metric, pageColor("accent")]], null, 180);
  };
  const details = element(
    "details",
    {
      class: "group",
      open: state.openGroups.has(key),
      ontoggle: () => {
        details.open ? state.openGroups.add(key) : state.openGroups.delete(key);
        if (details.open && !charts.childElementCount) fill();
      },
    },
    element("summary", {}, group, element("small", {}, plural(metrics.length, "metric"))),
    charts,
  );
  return details;
}

function runChart(data, run, parent, name, lines, limit, height = 240) {
  const x = valuesOf(run, "steps");
  const colors = lines.filter(([metric]) => valuesOf(run, metric)?.some((value) => value !== null));
  const key =
    colors.length > 1
      ? colors.map(([, text, color]) => {
          const mark = swatch({ color, dark: color });
          return element("span", { class: "key" }, mark, text);
        })
      : [];
  const target = element("div", { class: "chart" });
  parent.append(element("div", { class: "small-chart" }, element("h4", {}, name, ...key), target));
  curveChart(target, {
    name: `${name} of ${runName(data, run)}`,
    x,
    xName: AXES.steps,
    xText: short,
    yName: "",
    limit,
    height,
    curves: colors.map(([metric, text, color]) => ({ name: text, color, values: valuesOf(run, metric) })),
  });
}

function changedSettings(run) {
  if (run.changed === null)
    return [
      element(
        "p",
        { class: "caption" },
        "This run does not say which of its settings were changed; all of them are below.",
      ),
    ];
  const preset = run.settings.preset === "default" ? "the default" : `the preset ${run.settings.preset}`;
  const rows = Object.entries(run.changed);
  if (!rows.length) return [element("p", { class: "caption" }, `Settings: all as in ${preset}.`)];
  return [
    element("h3", {}, `Settings that differ from ${preset}`),
    element(
      "table",
      { class: "changed" },
      element("thead", {}, element("tr", {}, ...["Setting", "Here", "There"].map((text) => element("th", {}, text)))),
      element(
        "tbody",
        {},
        ...rows.map(([name, [here, there]]) =>
          element(
            "tr",
            {},
            element("td", {}, name),
            element("td", {}, JSON.stringify(here)),
            element("td", {}, JSON.stringify(there)),
          ),
        ),
      ),
    ),
  ];
}

function filmOf(film) {
  const shown = film.type.startsWith("image/")
    ? element("img", { src: film.source, alt: film.name })
    : element("video", { src: film.source, controls: true, preload: "metadata", "aria-label": film.name });
  return element("figure", {}, shown, element("figcaption", {}, film.name));
}

function listenToRuns(state) {
  byId("run-filter").addEventListener("input", (event) => {
    state.runFilter = event.target.value;
    filterRuns(state);
  });
}

// The verdict on each task: a sentence, who is over the limit, and the plane of reward and cost.

function renderVerdicts(data, state) {
  const cards = data.tasks.map((task, t) => verdictCard(data, state, task, t));
  byId("cards").replaceChildren(...cards);
  byId("waiting").hidden = data.tasks.length > 0;
  byId("waiting").textContent = data.tasks.length
    ? ""
    : "No run has a finished epoch yet. This page shows the first as soon as it is there.";
  byId("plane-caption").hidden = !data.tasks.length;
  for (const place of document.querySelectorAll(".converged")) place.textContent = percent(data.converged);
  dropCharts();
  data.tasks.forEach((task, t) => drawPlane(data, state, task, t, cards[t].querySelector(".chart")));
  const notes = byId("notes");
  notes.hidden = !data.notes.length;
  notes.querySelector("summary").textContent = `${plural(data.notes.length, "note")} on what is compared`;
  notes.querySelector("ul").replaceChildren(...data.notes.map((note) => element("li", {}, note)));
}

function verdictCard(data, state, task, t) {
  const several = task.limits.length > 1;
  const limits = task.limits.map((limit, c) =>
    limit === null ? "" : `${several ? `${task.costs[c]} ` : ""}≤ ${amount(limit)}`,
  );
  return element(
    "article",
    { class: "card verdict" },
    element("h2", {}, task.name, element("small", {}, limits.filter((text) => text).join(", ") || "no limit")),
    ...sentences(data, task),
    several ? costChoice(data, state, task, t) : null,
    task.judged.length ? element("div", { class: "chart" }) : null,
  );
}

/** Which of several costs the plane shows. */
function costChoice(data, state, task, t) {
  const chosen = state.planeCost[task.name] ?? 0;
  const options = task.costs.map((cost, c) => element("option", { value: c, selected: c === chosen }, cost));
  const onchange = (event) => {
    state.planeCost[task.name] = Number(event.target.value);
    drawPlane(data, state, task, t, event.target.closest(".card").querySelector(".chart"));
  };
  return element("label", {}, "Cost ", element("select", { onchange }, ...options));
}

/** What a reader wants to know first, in words. */
function sentences(data, task) {
  if (!task.judged.length) return [element("p", {}, "No run has a reward to judge by.")];
  const best = task.judged.find((item) => item.method === task.best) ?? null;
  const closest = best ? null : closestToLimit(task);
  const name = (item) => data.methods[item.method].name;
  const over = task.judged.filter((item) => !item.within && item !== closest);
  const unsure = task.judged.filter((item) => item.within && item !== best && (item.probability ?? 1) < 0.95);
  const violations = (items) => listed(items.map((item) => `${name(item)} (${violation(task, item)}${alarms(item)})`));
  const said = [
    ["Not clearly worse", listed(task.rivals.map((method) => data.methods[method].name))],
    ["Over the limit", violations(over.filter((item) => item.constrained))],
    ["Over it, trained without a limit", violations(over.filter((item) => !item.constrained))],
    ["Within it, but not surely", listed(unsure.map((item) => `${name(item)} (${percent(item.probability)})`))],
  ];
  return [
    best ? bestSentence(data, task, best) : closestSentence(data, task, closest),
    ...said.filter(([, names]) => names).map(([words, names]) => element("p", {}, `${words}: ${names}.`)),
  ];
}

function bestSentence(data, task, best) {
  const method = data.methods[best.method];
  const limited = task.limits.some((limit) => limit !== null);
  const sure =
    best.probability === null
      ? ". With one seed nobody can tell how sure that is"
      : `, ${percent(best.probability)} sure to be within the limit`;
  return element(
    "p",
    { class: "best" },
    "★ ",
    swatch(method),
    element("b", {}, method.name),
    limited ? " earns most within the limit: " : " earns most: ",
    `${rewardAndCosts(task, best)}${limited ? sure : ""}${alarms(best)}.`,
  );
}

function closestSentence(data, task, closest) {
  const method = data.methods[closest.method];
  return element(
    "p",
    { class: "best none" },
    "▲ No method is within the limit. Closest: ",
    swatch(method),
    element("b", {}, method.name),
    `, ${rewardAndCosts(task, closest)}${alarms(closest)}.`,
  );
}

/** The method whose worst cost is the smallest multiple of its limit. */
function closestToLimit(task) {
  const multiple = (mean, limit) => (limit === null || mean === null ? 0 : mean / Math.max(limit, 1e-9));
  const worst = (item) => Math.max(...item.costs.map(([mean], c) => multiple(mean, task.limits[c])));
  return task.judged.reduce((a, b) => (worst(b) < worst(a) ? b : a));
}

function rewardAndCosts(task, item) {
  const names = task.limits.length > 1 ? task.costs : ["cost"];
  return [`reward ${interval(item.reward)}`, ...item.costs.map((cost, c) => `${names[c]} ${interval(cost)}`)].join(
    ", ",
  );
}

/** The costs that are above their limits. */
function violation(task, item) {
  const over = item.costs
    .map(([mean], c) => [c, mean])
    .filter(([c, mean]) => task.limits[c] !== null && !(mean <= task.limits[c]));
  const texts = over.map(([c, mean]) => `${task.limits.length > 1 ? `${task.costs[c]} ` : ""}${amount(mean)}`);
  const chance = (item.probability ?? 0) > 0.05 ? `, yet ${percent(item.probability)} to be within` : "";
  return texts.join(", ") + chance;
}

function alarms(item) {
  const unfinished = item.unfinished - item.failed;
  const failed = item.failed ? `; ${plural(item.failed, "run")} failed` : "";
  return failed + (unfinished ? `; ${plural(unfinished, "run")} unfinished` : "");
}

function drawPlane(data, state, task, t, target) {
  if (!target) return; // nothing to judge
  const cost = state.planeCost[task.name] ?? 0;
  const points = task.judged
    .filter((item) => !state.hidden.has(data.methods[item.method].name))
    .map((item) => ({
      name: data.methods[item.method].name,
      color: methodColor(data.methods[item.method]),
      x: item.costs[cost],
      y: item.reward,
      seeds: item.seeds[0].map((reward, i) => [item.seeds[cost + 1][i], reward]),
      best: item.method === task.best,
      bars: item.seeds[0].length > 2, // of two seeds they are wider than the plane
      words: [
        plural(item.seeds[0].length, "seed"),
        ...(item.probability === null || task.limits[cost] === null
          ? []
          : [`${percent(item.probability)} sure to be within the limit`]),
      ],
    }));
  planeChart(target, {
    name: `reward and cost on ${task.name}`,
    xName: task.costs[cost],
    yName: "reward",
    points,
    limit: task.limits[cost],
    height: 290,
  });
}

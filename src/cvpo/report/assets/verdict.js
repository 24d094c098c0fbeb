// The verdict on each task: a sentence, who is over the limit, and the plane of reward and cost.

function renderVerdicts(data, state) {
  const cards = data.tasks.map((task, t) => verdictCard(data, state, task, t));
  byId("cards").replaceChildren(...cards);
  byId("waiting").hidden = data.tasks.length > 0;
  byId("waiting").textContent = data.tasks.length ? "" : "No run has a finished epoch yet. This page shows the first as soon as it is there.";
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
  const limits = task.limits.some((limit) => limit !== null)
    ? task.limits.map((limit, c) => (limit === null ? null : `${task.limits.length > 1 ? `${task.costs[c]} ` : ""}≤ ${amount(limit)}`)).filter((text) => text !== null)
    : ["no limit"];
  const pick = task.limits.length > 1
    ? element("label", {}, "Cost ", element("select", { onchange: (event) => {
        state.planeCost[task.name] = Number(event.target.value);
        drawPlane(data, state, task, t, event.target.closest(".card").querySelector(".chart"));
      } }, ...task.costs.map((cost, c) => element("option", { value: c, selected: c === (state.planeCost[task.name] ?? 0) }, cost))))
    : null;
  return element("article", { class: "card verdict" },
    element("h2", {}, task.name, element("small", {}, limits.join(", "))),
    ...sentences(data, task),
    pick,
    element("div", { class: "chart" }));
}

/** What a reader wants to know first, in words. */
function sentences(data, task) {
  const name = (item) => data.methods[item.method].name;
  const find = (method) => task.judged.find((item) => item.method === method);
  const limited = task.limits.some((limit) => limit !== null);
  const cost = (item) => item.costs.map((estimate, c) => `${task.limits.length > 1 ? task.costs[c] : "cost"} ${interval(estimate)}`).join(", ");
  const said = [];
  const best = task.best === null ? null : find(task.best);
  if (best) {
    const sure = !limited ? "" : best.probability === null
      ? ". One seed: how sure that is, nobody can tell"
      : `, ${percent(best.probability)} sure to be within the limit`;
    said.push(element("p", { class: "best" }, "★ ", swatch(data.methods[best.method]), element("b", {}, name(best)),
      limited ? " earns most within the limit: " : " earns most: ",
      `reward ${interval(best.reward)}, ${cost(best)}${sure}${alarms(best)}.`));
    if (task.rivals.length) said.push(element("p", {}, `Not clearly worse: ${listed(task.rivals.map((method) => data.methods[method].name))}.`));
  } else if (task.judged.length) {
    const over = (item) => Math.max(...item.costs.map(([mean], c) => (task.limits[c] === null || mean === null ? 0 : mean / Math.max(task.limits[c], 1e-9))));
    const closest = task.judged.reduce((a, b) => (over(b) < over(a) ? b : a));
    said.push(element("p", { class: "best none" }, "▲ No method is within the limit. Closest: ", swatch(data.methods[closest.method]),
      element("b", {}, name(closest)), `, reward ${interval(closest.reward)}, ${cost(closest)}${alarms(closest)}.`));
  } else {
    said.push(element("p", {}, "No run has a reward to judge by."));
  }
  for (const [items, words] of [
    [task.judged.filter((item) => !item.within && item.constrained), "Over the limit"],
    [task.judged.filter((item) => !item.within && !item.constrained), "Over it, and trained without one"],
  ]) {
    if (items.length) said.push(element("p", {}, `${words}: `, listed(items.map((item) => `${name(item)} (${violation(task, item)}${alarms(item)})`)), "."));
  }
  const shaky = task.judged.filter((item) => item.within && item !== best && item.probability !== null && item.probability < 0.95);
  if (limited && shaky.length) said.push(element("p", {}, `Within it, but not surely: ${listed(shaky.map((item) => `${name(item)} (${percent(item.probability)})`))}.`));
  return said;
}

function violation(task, item) {
  const broken = item.costs.map(([mean], c) => (task.limits[c] !== null && !(mean <= task.limits[c]) ? `${task.limits.length > 1 ? `${task.costs[c]} ` : ""}${amount(mean)}` : null)).filter((text) => text !== null);
  const chance = item.probability !== null && item.probability > 0.05 ? `, yet ${percent(item.probability)} to be within` : "";
  return broken.join(", ") + chance;
}

function alarms(item) {
  const unfinished = item.unfinished - item.failed;
  return (item.failed ? `; ${plural(item.failed, "run")} failed` : "") + (unfinished ? `; ${plural(unfinished, "run")} unfinished` : "");
}

function drawPlane(data, state, task, t, target) {
  const cost = state.planeCost[task.name] ?? 0;
  const points = task.judged.filter((item) => !state.hidden.has(data.methods[item.method].name)).map((item) => ({
    name: data.methods[item.method].name,
    color: methodColor(data.methods[item.method]),
    x: item.costs[cost],
    y: item.reward,
    seeds: item.seeds[0].map((reward, i) => [item.seeds[cost + 1][i], reward]),
    best: item.method === task.best,
    bars: item.seeds[0].length > 2, // of two seeds they are wider than the plane
    words: [plural(item.seeds[0].length, "seed"), ...(item.probability === null || task.limits[cost] === null ? [] : [`${percent(item.probability)} sure to be within the limit`])],
  }));
  planeChart(target, { name: `reward and cost on ${task.name}`, xName: task.costs[cost], yName: "reward", points, limit: task.limits[cost], height: 290 });
}

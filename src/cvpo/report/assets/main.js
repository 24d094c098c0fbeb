// The page as a whole: where its data comes from, and when what is drawn.

const state = {
  task: null,
  xAxis: "steps",
  draw: "methods",
  smoothing: 0.05,
  logarithmic: false,
  metrics: [null, null],
  range: null,
  hidden: new Set(), // methods, by name
  chosen: new Set(), // runs that are laid over the curves, by id
  open: new Set(),
  openGroups: new Set(),
  planeCost: {},
  sort: null,
  tableFilter: "",
  onlyWithin: false,
  runFilter: "",
};
let shown = null; // the data on the page

const render = {
  all() {
    renderHeader(shown);
    renderVerdicts(shown, state);
    renderExplorer(shown, state);
    renderTable(shown, state);
    renderRuns(shown, state);
  },
  explorer() {
    renderExplorer(shown, state);
  },
  table() {
    renderTable(shown, state);
  },
  /** The choice of methods holds for the planes too; the button that made it keeps the focus. */
  methods(name) {
    renderVerdicts(shown, state);
    renderExplorer(shown, state);
    [...byId("methods").children].find((button) => button.textContent === name)?.focus();
  },
  chosen() {
    renderExplorer(shown, state);
    for (const row of document.querySelectorAll(".run-row"))
      row.querySelector("input").checked = state.chosen.has(row.dataset.run);
  },
};

function renderHeader(data) {
  const count = (wanted) => data.runs.filter((run) => runState(run) === wanted).length;
  const states = ["unfinished", "failed"].filter((name) => count(name)).map((name) => `${count(name)} ${name}`);
  byId("overview").textContent = [
    plural(data.runs.length, "run"),
    plural(data.methods.length, "method"),
    plural(data.tasks.length, "task"),
    ...states,
  ].join(" · ");
  byId("made").textContent = `Made ${new Date(data.made).toLocaleString()}.`;
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Ask the server that this page comes from for newer data, until it is gone. */
async function watch() {
  const status = byId("live");
  status.hidden = false;
  let version = "";
  for (;;) {
    try {
      const answer = await fetch("data", { headers: version ? { "If-None-Match": version } : {}, cache: "no-store" });
      if (answer.status === 200) {
        version = answer.headers.get("ETag");
        shown = await answer.json();
        render.all();
      }
      status.className = answer.ok || answer.status === 304 ? "on" : "off";
      status.textContent =
        answer.ok || answer.status === 304
          ? "live: updated as runs go on"
          : `the server answered with ${answer.status}`;
    } catch {
      status.className = "off";
      status.textContent = "the server has stopped; this is what it showed last";
    }
    await new Promise((resume) => setTimeout(resume, 2000));
  }
}

listenToExplorer(state);
listenToTable(state);
listenToRuns(state);
darkness.addEventListener("change", () => shown && render.all());
(async () => {
  const packed = byId("data").textContent;
  if (packed && !("DecompressionStream" in window)) {
    byId("waiting").hidden = false;
    byId("waiting").textContent = "This browser is too old for the page: one of 2023 or later is needed.";
  } else if (packed) {
    shown = await unpacked(packed);
    render.all();
    document.body.dataset.ready = "";
  } else await watch();
})();

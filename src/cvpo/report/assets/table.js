// The table: a group of rows for each task, and for each cost of a task that has several.

function renderTable(data, state) {
  byId("table").hidden = !data.tasks.length;
  const heads = [
    ["Method", "algorithm, with the settings in which its runs differ"],
    ...data.columns.map((column) => [column.title, column.meaning]),
  ];
  const head = element(
    "tr",
    {},
    ...heads.map(([title, meaning], column) =>
      element(
        "th",
        {
          scope: "col",
          title: meaning,
          "aria-sort": state.sort?.column === column ? (state.sort.rising ? "ascending" : "descending") : null,
        },
        element(
          "button",
          {
            type: "button",
            onclick: () => {
              state.sort = { column, rising: !(state.sort?.column === column && state.sort.rising) };
              renderTable(data, state);
              document.querySelectorAll("#table th button")[column].focus();
            },
          },
          title,
        ),
      ),
    ),
  );
  const bodies = data.tasks.flatMap((task) =>
    task.limits.map((limit, cost) => tableGroup(data, state, task, limit, cost, heads.length)),
  );
  document
    .querySelector("#table table")
    .replaceChildren(element("thead", {}, head), ...bodies.filter((body) => body !== null));
}

function tableGroup(data, state, task, limit, cost, width) {
  const title = task.limits.length > 1 ? `${task.name}, ${task.costs[cost]}` : task.name;
  const method = (row) => data.methods[row.method].name;
  const rows = task.rows.filter(
    (row) =>
      row.constraint === cost &&
      matches(`${title} ${method(row)}`, state.tableFilter) &&
      (row.within || !state.onlyWithin),
  );
  if (!rows.length) return null;
  if (state.sort) {
    const key = (row) => (state.sort.column ? row.values[state.sort.column - 1] : method(row));
    rows.sort((a, b) => compared(key(a), key(b), state.sort));
  }
  return element(
    "tbody",
    {},
    element(
      "tr",
      { class: "group" },
      element(
        "th",
        { colspan: width, scope: "rowgroup" },
        title,
        element("small", {}, limit === null ? "no limit" : `limit ${amount(limit)}`),
      ),
    ),
    ...rows.map((row) =>
      element(
        "tr",
        { class: row.best ? "best" : null },
        element(
          "th",
          { scope: "row" },
          swatch(data.methods[row.method]),
          method(row),
          row.best ? element("span", { class: "star", title: "the best method within the limit" }, " ★") : null,
        ),
        ...row.texts.map((text, i) => element("td", { class: row.over[i] ? "over" : null }, text)),
      ),
    ),
  );
}

/** What was not measured stays at the end, whichever way the rest is sorted. */
function compared(a, b, { column, rising }) {
  if (column === 0) return (rising ? 1 : -1) * a.localeCompare(b, "en", { numeric: true });
  if (a === null || b === null) return (a === null) - (b === null);
  return (rising ? 1 : -1) * (Number(a) - Number(b) || 0);
}

function listenToTable(state) {
  byId("table-filter").addEventListener("input", (event) => {
    state.tableFilter = event.target.value;
    render.table();
  });
  byId("only-within").addEventListener("change", (event) => {
    state.onlyWithin = event.target.checked;
    render.table();
  });
}

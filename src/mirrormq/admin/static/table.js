// A table that is refreshed in place: rows are known by a key, and only cells whose text has changed are touched.

import { h, set } from "./dom.js";

const classes = (column) => [column.num && "num", column.roomy && "roomy", column.class].filter(Boolean).join(" ") || null;

// columns: {title, text(row), node?(row), num?, sort?, class?, roomy? (left out where there is no room)}
export function table({ columns, key, empty = "nothing here", sort = null, onSort = null, label = "" }) {
  const heads = columns.map((column) => {
    const inner = column.sort && onSort ? h("button", { type: "button", onclick: () => onSort(column.sort) }, column.title) : column.title;
    return h("th", { class: classes({ ...column, class: "" }), scope: "col" }, inner);
  });
  const body = h("tbody");
  const nothing = h("div", { class: "empty", hidden: true }, empty);
  const inner = h("table", { "aria-label": label || null }, h("thead", null, h("tr", null, heads)), body);
  const element = h("div", { class: "scroll" }, inner, nothing);
  const rows = new Map();

  function make(name) {
    const cells = columns.map((column) => h("td", { class: classes(column) }));
    const made = { element: h("tr", null, cells), cells, seen: [] };
    rows.set(name, made);
    return made;
  }

  function showRow(row) {
    const name = key(row);
    const made = rows.get(name) ?? make(name);
    columns.forEach((column, at) => {
      const signature = String(column.text(row) ?? "");
      if (made.seen[at] === signature) return;
      made.seen[at] = signature;
      set(made.cells[at], column.node ? column.node(row) : signature);
    });
    return [name, made];
  }

  function show(items) {
    const wanted = items.map(showRow);
    const names = new Set(wanted.map(([name]) => name));
    for (const [name, made] of rows) if (!names.has(name)) { made.element.remove(); rows.delete(name); }
    wanted.forEach(([, made], at) => { if (body.children[at] !== made.element) body.insertBefore(made.element, body.children[at] ?? null); });
    nothing.hidden = items.length > 0;
    inner.hidden = items.length === 0;
    if (sort) showSort();
  }

  function showSort() {
    const { by, back } = sort();
    columns.forEach((column, at) => {
      if (column.sort && column.sort === by) heads[at].setAttribute("aria-sort", back ? "descending" : "ascending");
      else heads[at].removeAttribute("aria-sort");
    });
  }

  return { element, show };
}

// A long list: the node sorts, filters and cuts it into pages, so that thousands of rows cost no more than one page.

import { get, query } from "./api.js";
import { h, text } from "./dom.js";
import { count } from "./format.js";
import { table } from "./table.js";

// path(): where the list is; extra: more of the query
export function listing({ path, columns, key, label, empty, size = 100, extra = {}, sort = { by: "", back: false }, refresh }) {
  const order = { ...sort };
  let page = 1;
  let name = "";
  const filter = h("input", { type: "search", placeholder: "Filter by name  ( / )", "aria-label": `filter ${label}`, "data-filter": true });
  const regex = h("input", { type: "checkbox" });
  const total = h("span", { class: "sub" });
  const where = h("span");
  const back = h("button", { type: "button", onclick: () => turn(-1) }, "‹ Previous");
  const on = h("button", { type: "button", onclick: () => turn(1) }, "Next ›");
  const pager = h("div", { class: "pager", hidden: true }, back, where, on);
  const rows = table({ columns, key, label, empty, sort: () => order, onSort });
  let waiting = 0;

  filter.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { name = filter.value; page = 1; refresh(); }, 150);
  });
  regex.addEventListener("change", () => { page = 1; refresh(); });

  function onSort(by) {
    order.back = order.by === by ? !order.back : false;
    order.by = by;
    page = 1;
    refresh();
  }

  function turn(step) {
    page += step;
    refresh();
  }

  async function load() {
    const wanted = { page, page_size: size, name, use_regex: regex.checked ? "true" : "", sort: order.by, sort_reverse: order.back ? "true" : "", ...extra };
    let told = await get(path() + query(wanted));
    if (told.page > told.page_count) { page = 1; told = await get(path() + query({ ...wanted, page })); }
    rows.show(told.items);
    text(total, name ? `${count(told.filtered_count)} of ${count(told.total_count)}` : count(told.total_count));
    pager.hidden = told.page_count < 2;
    text(where, `page ${told.page} of ${told.page_count}`);
    back.disabled = told.page <= 1;
    on.disabled = told.page >= told.page_count;
    return told;
  }

  const tools = h("div", { class: "tools" }, filter, h("label", { class: "check" }, regex, "regular expression"), total);
  const element = h("div", null, tools, h("div", { class: "card" }, rows.element, pager));
  return { element, load, tools };
}

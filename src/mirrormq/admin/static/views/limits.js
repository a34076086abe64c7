// Limits of virtual hosts and of users.

import { del, get, put, seg } from "../api.js";
import { card, h } from "../dom.js";
import { act, field, form, input, select } from "../forms.js";
import { count } from "../format.js";
import { title } from "../shell.js";
import { may, state } from "../state.js";
import { table } from "../table.js";

export default function limits(_, refresh) {
  const parts = [kind({ path: "vhost-limits", one: "vhost", word: "Virtual host", names: ["max-connections", "max-queues"], list: () => get("api/vhosts?columns=name"), refresh })];
  if (may.administer()) parts.push(kind({ path: "user-limits", one: "user", word: "User", names: ["max-connections", "max-channels"], list: () => get("api/users?columns=name"), refresh }));
  return { title: "Limits", element: h("div", null, title("Limits"), parts.map((part) => part.element)), load: () => Promise.all(parts.map((part) => part.load())) };
}

function kind({ path, one, word, names, list, refresh }) {
  const clear = (row) => h("button", { class: "quiet", onclick: async () => { await act(() => del(`api/${path}/${seg(row.whose)}/${seg(row.limit)}`), "The limit is gone."); refresh(); } }, "Clear");
  const rows = table({ key: (row) => row.whose + row.limit, label: path, empty: "No limit is set.", columns: [
    { title: word, class: "name", text: (row) => row.whose }, { title: "Limit", text: (row) => row.limit },
    { title: "Value", num: true, text: (row) => (row.value < 0 ? "no limit" : count(row.value)) },
    { title: "", text: (row) => row.whose, node: (row) => (may.administer() ? clear(row) : "") },
  ] });
  const whose = select("whose", []);
  const made = form([field(word, whose), field("Limit", select("limit", names)), field("Value", input("value", { type: "number", required: true }), "negative: no limit")], "Set limit", async (values) => {
    await put(`api/${path}/${seg(values.whose)}/${seg(values.limit)}`, { value: Number(values.value) });
    return "The limit is set.";
  }, { onDone: refresh, keepValues: true });

  async function load() {
    if (may.administer() && !whose.options.length) whose.append(...(await list()).map((row) => h("option", { value: row.name }, row.name)));
    const told = await get(`api/${path}`);
    rows.show(told.flatMap((row) => Object.entries(row.value).map(([limit, value]) => ({ whose: row[one], limit, value })))
      .filter((row) => one !== "vhost" || !state.vhost || row.whose === state.vhost));
  }
  const element = h("div", null, h("section", { class: "card" }, h("header", null, h("h2", null, `${word} limits`)), rows.element), may.administer() ? card(`Set a limit of a ${word.toLowerCase()}`, made) : null);
  return { element, load };
}

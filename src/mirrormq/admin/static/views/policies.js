// Policies and operator policies: which exist, and add or update one.

import { del, get, put, seg } from "../api.js";
import { badge, card, confirm, h } from "../dom.js";
import { Invalid, act, argumentsBox, field, form, input, parseArguments, select } from "../forms.js";
import { title } from "../shell.js";
import { may, state } from "../state.js";
import { table } from "../table.js";

const KEYS = [
  "ha-mode=all", "ha-mode=exactly", "ha-mode=nodes", "ha-params=2", "ha-sync-mode=automatic", "ha-promote-on-shutdown=when-synced", "ha-promote-on-failure=when-synced", "max-length=", "max-length-bytes=", "overflow=drop-head",
  "message-ttl=", "expires=", "dead-letter-exchange=", "dead-letter-routing-key=", "queue-master-locator=min-masters", "alternate-exchange=",
];
const OPERATOR_KEYS = ["max-length=", "max-length-bytes=", "message-ttl=", "expires=", "overflow=drop-head"];
const line = ([key, value]) => `${key} = ${typeof value === "string" ? value : JSON.stringify(value)}`;

export default function policies(_, refresh) {
  const plain = kind({ path: "policies", word: "policy", keys: KEYS, allowed: may.makePolicies(), refresh });
  const operator = kind({ path: "operator-policies", word: "operator policy", keys: OPERATOR_KEYS, allowed: may.administer(), refresh });
  const element = h("div", null, title("Policies"), plain.element, h("h2", { class: "title" }, "Operator policies"),
    h("p", { class: "sub" }, "They hold above all others, and set limits for what users may ask for."), operator.element);
  return { title: "Policies", element, load: () => Promise.all([plain.load(), operator.load()]) };
}

function kind({ path, word, keys, allowed, refresh }) {
  const where = (row) => `api/${path}/${seg(row.vhost)}/${seg(row.name)}`;
  const rows = table({ key: (row) => JSON.stringify([row.vhost, row.name]), label: path, empty: `There is no ${word}.`, columns: [
    { title: "Name", class: "name", text: (row) => row.name },
    { title: "Virtual host", roomy: true, text: (row) => row.vhost },
    { title: "Pattern", class: "mono wrap", text: (row) => row.pattern },
    { title: "Applies to", roomy: true, text: (row) => row["apply-to"] },
    { title: "Definition", class: "wrap", text: (row) => JSON.stringify(row.definition), node: (row) => h("span", { class: "badges" }, Object.entries(row.definition).map((one) => badge(line(one), one[0].startsWith("ha-") ? "accent" : ""))) },
    { title: "Priority", roomy: true, num: true, text: (row) => row.priority },
    { title: "", text: (row) => JSON.stringify(row), node: (row) => (allowed ? h("div", { class: "actions" }, h("button", { class: "quiet", onclick: () => edit(row) }, "Edit"), h("button", { class: "quiet", onclick: () => remove(row) }, "Delete")) : "") },
  ] });
  const places = select("vhost", Object.keys(state.me.permissions).sort(), { chosen: state.vhost || "/" });
  const made = form([
    field("Virtual host", places), field("Name", input("name", { required: true })), field("Pattern", input("pattern", { required: true, placeholder: "^orders\\." }), "a regular expression"),
    field("Apply to", select("apply-to", [["all", "exchanges and queues"], ["queues", "queues"], ["exchanges", "exchanges"]])), field("Priority", input("priority", { type: "number", value: 0 }), "the highest that matches holds"),
    argumentsBox("definition", keys, { label: "Definition", rows: 4 }),
  ], `Add / update ${word}`, async (values) => {
    const definition = parseArguments(values.definition, "definition");
    if (!Object.keys(definition).length) throw new Invalid("A definition needs at least one key.");
    if (definition["ha-mode"] === "nodes" && typeof definition["ha-params"] === "string") definition["ha-params"] = definition["ha-params"].split(",").map((one) => one.trim());
    await put(where(values), { pattern: values.pattern, "apply-to": values["apply-to"], priority: Number(values.priority || 0), definition });
    return `The ${word} ${values.name} holds.`;
  }, { onDone: refresh });

  function edit(row) {
    if (![...places.options].some((one) => one.value === row.vhost)) places.append(h("option", { value: row.vhost }, row.vhost));
    for (const name of ["vhost", "name", "pattern", "apply-to", "priority"]) made.elements[name].value = row[name];
    made.elements.definition.value = Object.entries(row.definition).map(line).join("\n");
    adding.open = true;
    made.scrollIntoView({ block: "center" });
    made.elements.pattern.focus();
  }

  async function remove(row) {
    if (await confirm(`Delete ${row.name}?`, `What it matches in ${row.vhost} goes by the next policy, or by none.`, "Delete it")) { await act(() => del(where(row)), `The ${word} ${row.name} is gone.`); refresh(); }
  }

  const adding = word === "policy" ? card("Add / update a policy", made)
    : h("details", { class: "fold" }, h("summary", null, "Add / update an operator policy"), h("div", { class: "body" }, made));
  const element = h("div", { id: path }, h("div", { class: "card" }, rows.element), allowed ? adding : null);
  const load = async () => rows.show(await get(state.vhost ? `api/${path}/${seg(state.vhost)}` : `api/${path}`));
  return { element, load };
}

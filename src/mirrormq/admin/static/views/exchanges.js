// Exchanges, and one of them with its bindings.

import { del, get, post, put, seg } from "../api.js";
import { badge, card, confirm, facts, h } from "../dom.js";
import { act, argumentsBox, check, field, form, input, parseArguments, select } from "../forms.js";
import { count, rate } from "../format.js";
import { listing } from "../listing.js";
import { publishForm } from "../publish.js";
import { crumb, title } from "../shell.js";
import { link, may, state } from "../state.js";
import { table } from "../table.js";
import { vhostChoice } from "../pieces.js";

export const shown = (name) => name || "(AMQP default)";
const path = (vhost, name) => `api/exchanges/${seg(vhost)}/${seg(name || "amq.default")}`;
const features = (row) => [row.durable && "durable", row.auto_delete && "auto-delete", row.internal && "internal", ...Object.keys(row.arguments ?? {})].filter(Boolean);

export default function exchanges([vhost, name], refresh) {
  return vhost === undefined ? all(refresh) : one(vhost, name === "amq.default" ? "" : name, refresh);
}

function all(refresh) {
  const list = listing({
    path: () => (state.vhost ? `api/exchanges/${seg(state.vhost)}` : "api/exchanges"), label: "exchanges", key: (row) => JSON.stringify([row.vhost, row.name]), refresh,
    columns: [
      { title: "Name", sort: "name", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("exchanges", row.vhost, row.name || "amq.default") }, shown(row.name)) },
      { title: "Virtual host", roomy: true, sort: "vhost", text: (row) => row.vhost },
      { title: "Type", sort: "type", text: (row) => row.type },
      { title: "Features", roomy: true, text: (row) => features(row).join(), node: (row) => h("span", { class: "badges" }, features(row).map((one) => badge(one))) },
      { title: "Policy", roomy: true, sort: "policy", text: (row) => row.policy ?? "" },
      { title: "In", sort: "message_stats.publish_in_details.rate", num: true, text: (row) => rate(row.message_stats?.publish_in_details?.rate ?? 0) },
      { title: "Out", sort: "message_stats.publish_out_details.rate", num: true, text: (row) => rate(row.message_stats?.publish_out_details?.rate ?? 0) },
    ],
  });
  return { title: "Exchanges", element: h("div", null, title("Exchanges"), list.element, adding(refresh)), load: list.load };
}

function adding(refresh) {
  const types = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-delayed-message"];
  const made = form([
    vhostChoice(), field("Name", input("name", { required: true })), field("Type", select("type", types)),
    field("Durability", select("durable", [["true", "durable"], ["false", "transient"]])), check("auto_delete", "delete when the last binding goes"), check("internal", "internal"),
    argumentsBox("arguments", ["alternate-exchange=", "x-delayed-type=direct"]),
  ], "Add exchange", async (values) => {
    await put(path(values.vhost, values.name), { type: values.type, durable: values.durable === "true", auto_delete: values.auto_delete, internal: values.internal, arguments: parseArguments(values.arguments) });
    return `Exchange ${values.name} is there.`;
  }, { onDone: refresh });
  return h("details", { class: "fold" }, h("summary", null, "Add an exchange"), h("div", { class: "body" }, made));
}

function one(vhost, name, refresh) {
  const about = facts();
  const unbind = (row) => h("button", { class: "quiet", onclick: async () => {
    if (await confirm("Remove the binding?", `${shown(row.source)} → ${row.destination} with key "${row.routing_key}"`, "Unbind")) {
      const kind = row.destination_type[0];
      await act(() => del(`api/bindings/${seg(vhost)}/e/${seg(row.source)}/${kind}/${seg(row.destination)}/${seg(row.properties_key)}`), "The binding is gone.");
      refresh();
    }
  } }, "Unbind");
  const columns = (out) => [
    { title: out ? "To" : "From", class: "name", text: (row) => (out ? row.destination_type + row.destination : row.source), node: (row) => (out
      ? h("span", null, badge(row.destination_type), " ", h("a", { href: link(`${row.destination_type}s`, vhost, row.destination) }, row.destination))
      : h("a", { href: link("exchanges", vhost, row.source || "amq.default") }, shown(row.source))) },
    { title: "Routing key", class: "wrap mono", text: (row) => row.routing_key },
    { title: "Arguments", class: "wrap mono", text: (row) => (Object.keys(row.arguments).length ? JSON.stringify(row.arguments) : "") },
    { title: "", text: (row) => row.source, node: (row) => (row.source ? unbind(row) : "") },
  ];
  const key = (row) => JSON.stringify([row.source, row.destination_type, row.destination, row.properties_key]);
  const out = table({ key, columns: columns(true), label: "bindings from this exchange", empty: "It is bound to nothing." });
  const into = table({ key, columns: columns(false), label: "bindings to this exchange", empty: "Nothing is bound to it." });
  const remove = h("button", { class: "danger", onclick: async () => {
    if (await confirm(`Delete ${name}?`, "Its bindings go with it. Clients that publish to it get an error.", "Delete it")) {
      if (await act(() => del(path(vhost, name)), `Exchange ${name} is deleted.`)) location.hash = link("exchanges");
    }
  } }, "Delete the exchange");

  async function load() {
    const [row, from, to] = await Promise.all([get(path(vhost, name)), get(`${path(vhost, name)}/bindings/source`), get(`${path(vhost, name)}/bindings/destination`)]);
    about.show([
      ["Type", row.type], ["Features", features(row).join(", ") || "–"], ["Arguments", Object.keys(row.arguments).length ? JSON.stringify(row.arguments) : "–"], ["Policy", row.policy ?? "–"],
      ["Published in", `${count(row.message_stats?.publish_in ?? 0)} (${rate(row.message_stats?.publish_in_details?.rate ?? 0)})`],
      ["Published out", `${count(row.message_stats?.publish_out ?? 0)} (${rate(row.message_stats?.publish_out_details?.rate ?? 0)})`],
    ]);
    out.show(from);
    into.show(to);
  }

  const mine = may.enter(vhost);
  const element = h("div", null, h("div", { class: "title" }, crumb(h("a", { href: link("exchanges") }, "Exchanges"), vhost), h("h1", null, shown(name))),
    card("Details", about.element, mine && name && !name.startsWith("amq.") ? remove : null),
    h("section", { class: "card" }, h("header", null, h("h2", null, "Bindings from it")), out.element),
    name ? h("section", { class: "card" }, h("header", null, h("h2", null, "Bindings to it")), into.element) : null,
    mine && name ? binding(vhost, name, refresh) : null,
    mine ? h("details", { class: "fold" }, h("summary", null, "Publish a message"), h("div", { class: "body" }, publishForm(vhost, name, "", refresh))) : null);
  return { title: shown(name), element, load };
}

function binding(vhost, name, refresh) {
  const made = form([
    field("Bind it to", select("kind", [["q", "queue"], ["e", "exchange"]])), field("Name", input("destination", { required: true })), field("Routing key", input("routing_key")),
    argumentsBox("arguments", ["x-match=all"]),
  ], "Bind", async (values) => {
    await post(`api/bindings/${seg(vhost)}/e/${seg(name)}/${values.kind}/${seg(values.destination)}`, { routing_key: values.routing_key, arguments: parseArguments(values.arguments) });
    return "The binding is there.";
  }, { onDone: refresh });
  return h("details", { class: "fold" }, h("summary", null, "Add a binding"), h("div", { class: "body" }, made));
}

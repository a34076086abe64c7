// One queue: figures, its ring, its messages, its bindings.

import { del, get, post, seg } from "../api.js";
import { card, confirm, facts, h, set } from "../dom.js";
import { act, argumentsBox, field, form, input, parseArguments } from "../forms.js";
import { bytes, count, when } from "../format.js";
import { queueBadges } from "../pieces.js";
import { FLOWS, History, LENGTHS, flows, plot, sampled, samples } from "../plot.js";
import { crumb } from "../shell.js";
import { link, may } from "../state.js";
import { table } from "../table.js";
import { consumerColumns } from "./channels.js";
import { shown } from "./exchanges.js";
import { messages } from "../messages.js";
import { ringTab } from "../ringtab.js";

const TABS = [["", "Figures"], ["ring", "Ring"], ["messages", "Messages"], ["bindings", "Bindings"], ["consumers", "Consumers"]];

export default function queue([vhost, name, tab = "", ...rest], refresh) {
  const base = `api/queues/${seg(vhost)}/${seg(name)}`;
  const marks = h("span", { class: "badges" });
  const nav = h("nav", { class: "tabs", "aria-label": "Parts of the queue" }, TABS.map(([key, words]) =>
    h("a", { href: key ? link("queues", vhost, name, key) : link("queues", vhost, name), "aria-current": key === tab ? "page" : null }, words)));
  const inner = { "": figures, ring: ringTab, messages, bindings, consumers }[tab] ?? figures;
  const part = inner({ vhost, name, base, rest, refresh, showBadges: (row) => showBadges(row) });

  function showBadges(row) {
    const found = queueBadges(row);
    const signature = found.map((one) => one.textContent).join();
    if (marks.dataset.seen !== signature) { marks.dataset.seen = signature; set(marks, found); }
  }

  const element = h("div", null, h("div", { class: "title" }, crumb(h("a", { href: link("queues") }, "Queues"), vhost), h("h1", null, name), marks), nav, part.element);
  return { title: name, element, load: part.load, close: part.close };
}

function figures({ vhost, name, base, refresh, showBadges }) {
  const past = new History();
  const lengths = plot({ label: "Messages in the queue over time", series: LENGTHS });
  const rates = plot({ label: "Message rates over time", series: FLOWS, unit: "/s" });
  const about = facts();
  const size = facts();
  const purge = h("button", { onclick: async () => {
    if (await confirm(`Purge ${name}?`, "All its ready messages go.", "Purge it") && await act(() => del(`${base}/contents`), "The queue is purged.")) refresh();
  } }, "Purge");
  const remove = h("button", { class: "danger", onclick: async () => {
    if (await confirm(`Delete ${name}?`, "Its messages and bindings go with it. Its consumers are cancelled.", "Delete it")
      && await act(() => del(base), `Queue ${name} is deleted.`)) location.hash = link("queues");
  } }, "Delete");

  async function load() {
    const row = await get(`${base}?${sampled(past)}`);
    showBadges(row);
    past.seed({ ...samples(LENGTHS, row), ...samples(FLOWS, row.message_stats) });
    past.add({ ...flows(LENGTHS, row), ...flows(FLOWS, row.message_stats) });
    lengths.show((series) => past.gauge(series));
    rates.show((series) => past.rate(series));
    about.show([
      ["State", row.reason ? `${row.state}: ${row.reason}` : row.state], ["Leader", row.waits_for ? "nobody" : row.node], ["Mirrors", row.slave_nodes ? row.slave_nodes.join(", ") || "none" : "not mirrored"],
      ["Policy", row.policy || "–"], ["Operator policy", row.operator_policy || "–"],
      ["Effective definition", row.effective_policy_definition && Object.keys(row.effective_policy_definition).length ? JSON.stringify(row.effective_policy_definition) : "–"],
      ["Arguments", Object.keys(row.arguments ?? {}).length ? JSON.stringify(row.arguments) : "–"], ["Consumers", count(row.consumers)],
      ["Consumer capacity", row.consumers ? `${Math.round(100 * row.consumer_capacity)} %` : "–"], ["Idle since", row.idle_since ? when(row.idle_since) : row.state === "down" ? "–" : "busy"],
    ]);
    size.show([
      ["Messages", `${count(row.messages)} (${bytes(row.message_bytes)})`], ["Ready", `${count(row.messages_ready)} (${bytes(row.message_bytes_ready)})`],
      ["Unacknowledged", `${count(row.messages_unacknowledged)} (${bytes(row.message_bytes_unacknowledged)})`],
      ["Persistent", `${count(row.messages_persistent)} (${bytes(row.message_bytes_persistent)})`], ["In memory", `${count(row.messages_ram)} (${bytes(row.message_bytes_ram)})`],
      ["On disk alone", `${count(row.messages_paged_out)} (${bytes(row.message_bytes_paged_out)})`], ["Memory used", bytes(row.memory)],
    ]);
  }

  const deeds = may.enter(vhost) ? [purge, remove] : [];
  const element = h("div", null, h("div", { class: "grid" }, card("Messages", lengths.element), card("Rates", rates.element)),
    h("div", { class: "grid" }, card("Details", about.element, ...deeds), card("Content", size.element)));
  return { element, load };
}

function bindings({ vhost, name, base, refresh }) {
  const unbind = (row) => h("button", { class: "quiet", onclick: async () => {
    if (await confirm("Remove the binding?", `${shown(row.source)} with key "${row.routing_key}"`, "Unbind")) {
      await act(() => del(`api/bindings/${seg(vhost)}/e/${seg(row.source)}/q/${seg(name)}/${seg(row.properties_key)}`), "The binding is gone.");
      refresh();
    }
  } }, "Unbind");
  const rows = table({ key: (row) => JSON.stringify([row.source, row.properties_key]), label: "bindings", empty: "Nothing is bound to it.", columns: [
    { title: "From", class: "name", text: (row) => row.source, node: (row) => h("a", { href: link("exchanges", vhost, row.source || "amq.default") }, shown(row.source)) },
    { title: "Routing key", class: "wrap mono", text: (row) => row.routing_key },
    { title: "Arguments", class: "wrap mono", text: (row) => (Object.keys(row.arguments).length ? JSON.stringify(row.arguments) : "") },
    { title: "", text: (row) => row.source, node: (row) => (row.source && may.enter(vhost) ? unbind(row) : "") },
  ] });
  const add = form([field("From exchange", input("source", { required: true })), field("Routing key", input("routing_key")), argumentsBox("arguments", ["x-match=all"])], "Bind", async (values) => {
    await post(`api/bindings/${seg(vhost)}/e/${seg(values.source)}/q/${seg(name)}`, { routing_key: values.routing_key, arguments: parseArguments(values.arguments) });
    return "The binding is there.";
  }, { onDone: refresh });
  const element = h("div", null, h("div", { class: "card" }, rows.element), may.enter(vhost) ? card("Add a binding", add) : null);
  return { element, load: async () => rows.show(await get(`${base}/bindings`)) };
}

function consumers({ base, showBadges }) {
  const rows = table({ key: (row) => JSON.stringify([row.consumer_tag, row.channel_details?.name]), label: "consumers", empty: "Nobody consumes from it.", columns: consumerColumns.filter((one) => one.title !== "Queue") });
  async function load() {
    const row = await get(base);
    showBadges(row);
    rows.show(row.consumer_details ?? []);
  }
  return { element: h("div", { class: "card" }, rows.element), load };
}

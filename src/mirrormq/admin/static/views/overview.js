// The cluster at a glance.

import { Refused, get, post } from "../api.js";
import { badge, card, confirm, h, set } from "../dom.js";
import { act } from "../forms.js";
import { bytes, count, duration, rate } from "../format.js";
import { FLOWS, History, LENGTHS, flows, plot, sampled, samples } from "../plot.js";
import { title } from "../shell.js";
import { link, may } from "../state.js";
import { table } from "../table.js";

export default function overview() {
  const tiles = h("div", { class: "tiles" });
  const past = new History();
  const lengths = plot({ label: "Queued messages over time", series: LENGTHS });
  const rates = plot({ label: "Message rates over time", series: FLOWS, unit: "/s" });
  const alarms = h("div");
  const nodes = table({ key: (row) => row.name, label: "nodes", columns: [
    { title: "Node", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("cluster") }, row.name) },
    { title: "State", text: (row) => stateOf(row).join(), node: (row) => badge(...stateOf(row)) },
    { title: "Memory", num: true, text: (row) => (row.running ? `${bytes(row.mem_used)} of ${bytes(row.mem_limit)}` : "–") },
    { title: "Disk free", roomy: true, num: true, text: (row) => (row.running ? bytes(row.disk_free) : "–") },
    { title: "Sockets", roomy: true, num: true, text: (row) => (row.running ? count(row.sockets_used) : "–") },
    { title: "Up for", num: true, text: (row) => (row.running ? duration(row.uptime).replace(/ \d+ s$/, "") : "–") },
  ] });
  const element = h("div", null, title("Overview"), alarms, tiles, h("div", { class: "grid" }, card("Queued messages", lengths.element), card("Message rates", rates.element)),
    may.monitor() ? h("section", { class: "card" }, h("header", null, h("h2", null, "Nodes")), nodes.element) : null, may.administer() ? definitions() : null);

  async function load() {
    const told = await get(`api/overview?${sampled(past)}`);
    const totals = told.object_totals;
    const series = [...LENGTHS, ...FLOWS];
    const values = { ...flows(LENGTHS, told.queue_totals), ...flows(FLOWS, told.message_stats) };
    past.seed({ ...samples(LENGTHS, told.queue_totals), ...samples(FLOWS, told.message_stats) });
    past.add(values);
    lengths.show((name) => past.gauge(name));
    rates.show((name) => past.rate(name));
    showTiles(totals, told, series);
    if (may.monitor()) await loadNodes();
  }

  function showTiles(totals, told) {
    const items = [
      ["queues", "Queues", count(totals.queues)], ["connections", "Connections", count(totals.connections)],
      ["channels", "Channels", count(totals.channels)], ["exchanges", "Exchanges", count(totals.exchanges)],
      ["queues", "Consumers", count(totals.consumers)], ["queues", "Messages", count(told.queue_totals.messages ?? 0)],
      ["queues", "Published", rate(told.message_stats?.publish_details?.rate ?? 0)],
    ];
    if (tiles.children.length !== items.length) set(tiles, items.map(([to]) => h("a", { class: "tile", href: link(to) }, h("b"), h("span"))));
    items.forEach(([, words, value], at) => {
      tiles.children[at].firstChild.textContent = value;
      tiles.children[at].lastChild.textContent = words;
    });
  }

  async function loadNodes() {
    const rows = await get("api/nodes");
    nodes.show(rows);
    const raised = rows.flatMap((row) => [[row.mem_alarm, "memory"], [row.disk_free_alarm, "disk"]].filter(([on]) => on).map(([, what]) => `${row.name}: ${what} alarm, publishers are blocked`));
    const parted = rows.filter((row) => row.partitions?.length).map((row) => `${row.name} does not reach ${row.partitions.join(", ")}`);
    set(alarms, [...raised, ...parted].map((words) => h("div", { class: "note bad" }, words)));
  }

  return { title: "Overview", element, load };
}

async function read(file) {
  try { return JSON.parse(await file.text()); } catch { throw new Refused(0, `${file.name} is not JSON`); }
}

// Everything that is declared, as a file, and back.
function definitions() {
  const save = async () => {
    const told = await get("api/definitions");
    const where = URL.createObjectURL(new Blob([JSON.stringify(told, null, 1)], { type: "application/json" }));
    h("a", { href: where, download: "definitions.json" }).click();
    setTimeout(() => URL.revokeObjectURL(where), 10_000);
  };
  const file = h("input", { type: "file", accept: "application/json,.json", "aria-label": "Definitions to import", onchange: async () => {
    const [chosen] = file.files;
    if (chosen && await confirm("Import these definitions?", `What is in ${chosen.name} is added; what exists stays.`, "Import", { danger: false })) {
      await act(async () => post("api/definitions", await read(chosen)), "The definitions are imported.");
    }
    file.value = "";
  } });
  return h("details", { class: "fold" }, h("summary", null, "Definitions"), h("div", { class: "body" },
    h("p", null, "Users, virtual hosts, permissions, queues, exchanges, bindings and policies as one file, in RabbitMQ's format. Messages are not in it."),
    h("div", { class: "actions" }, h("button", { onclick: () => act(save, "") }, "Export"), h("label", { class: "check" }, "Import ", file))));
}

function stateOf(row) {
  if (!row.running) return ["down", "bad"];
  if (row.mem_alarm || row.disk_free_alarm) return ["alarm", "bad"];
  return row.being_drained ? ["maintenance", "warn"] : ["running", "good"];
}

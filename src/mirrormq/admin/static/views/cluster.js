// The cluster: a map of leaders, what a rebalance would do, what stopping a node would do.

import { get, post, seg } from "../api.js";
import { badge, card, confirm, h, set } from "../dom.js";
import { act } from "../forms.js";
import { bytes, count, duration, plural } from "../format.js";
import { title } from "../shell.js";
import { link, may } from "../state.js";
import { table } from "../table.js";

export default function cluster(_, refresh) {
  const bars = h("div", { class: "bars" });
  const forecast = h("div");
  const preview = h("div", null, "Which queues would be led by another node, so that all nodes lead as many.");
  const nodes = nodeTable((node) => showForecast(node));
  let asked = 0;

  async function load() {
    const [map, rows, whole] = await Promise.all([get("api/cluster-map"), get("api/nodes"), get("api/cluster")]);
    showMap(map);
    nodes.show(rows.map((row) => ({ ...row, ...map.nodes.find((one) => one.name === row.name), version: whole.versions[row.name], others: rows.length - 1 })));
  }

  function showMap(map) {
    const most = Math.max(1, ...map.nodes.map((one) => one.leaders + one.mirrors + one.learners));
    const part = (kind, value) => { const made = h("div", { class: kind, title: `${value}` }); made.style.width = `${(100 * value) / most}%`; return made; };
    set(bars, map.nodes.map((one) => h("div", { class: "row" },
      h("span", null, one.name, " ", one.running ? null : badge("down", "bad"), one.maintenance ? badge("maintenance", "warn") : null),
      h("div", { class: "track" }, part("lead", one.leaders), part("mirror", one.mirrors), part("learner", one.learners)),
      h("span", { class: "num" }, `${plural(one.leaders, "leader")}, ${plural(one.mirrors, "mirror")}`))));
  }

  async function showForecast(node) {
    const mine = ++asked;
    const told = await get(`api/nodes/${seg(node)}/stop-forecast`).catch((fault) => ({ sentence: fault.message, queues: [], lost: 1 }));
    if (mine !== asked) return;
    const kinds = { lost: "bad", partly: "bad", waits: "warn", moves: "good" };
    const rows = table({ key: (row) => JSON.stringify([row.vhost, row.name]), label: "forecast", empty: "It leads no queue.", columns: [
      { title: "Queue", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("queues", row.vhost, row.name) }, row.name) },
      { title: "Virtual host", text: (row) => row.vhost }, { title: "Messages", num: true, text: (row) => count(row.messages) },
      { title: "", text: (row) => row.verdict, node: (row) => badge(row.verdict, kinds[row.verdict]) }, { title: "What would happen", class: "wrap", text: (row) => row.sentence },
    ] });
    rows.show(told.queues);
    const more = told.count > told.queues.length ? h("p", null, `${count(told.count - told.queues.length)} more are not shown.`) : null;
    set(forecast, h("section", { class: "card", id: "forecast" }, h("header", null, h("h2", null, `If ${node} stopped now`)),
      h("div", { class: "body" }, h("div", { class: `note ${told.lost || told.partly ? "bad" : told.waits ? "warn" : "good"}` }, told.sentence), more), rows.element));
    forecast.scrollIntoView({ block: "nearest" });
  }

  async function showPreview() {
    const told = await get("api/rebalance/queues");
    const rows = table({ key: (row) => JSON.stringify([row.vhost, row.name]), label: "moves", empty: "Nothing would move.", columns: [
      { title: "Queue", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("queues", row.vhost, row.name) }, row.name) },
      { title: "Virtual host", text: (row) => row.vhost }, { title: "Led by", text: (row) => row.leader }, { title: "Would be led by", text: (row) => row.target }, { title: "Ring", class: "wrap", text: (row) => row.mirrored },
    ] });
    rows.show(told.moves);
    const loads = Object.keys(told.before).sort().map((node) => h("tr", null, h("td", null, node), h("td", { class: "num" }, count(told.before[node])), h("td", { class: "num" }, count(told.after[node]))));
    const go = h("button", { class: "primary", disabled: told.count === 0, onclick: async () => {
      if (await confirm("Rebalance now?", `${plural(told.count, "queue")} would be led by another node. Their clients see a short pause.`, "Rebalance", { danger: false })) {
        await act(() => post("api/rebalance/queues"), "The rebalance has begun.");
        refresh();
      }
    } }, "Rebalance");
    set(preview, h("div", { class: "note" }, told.sentence), h("div", { class: "scroll" }, h("table", { "aria-label": "leaders by node" },
      h("thead", null, h("tr", null, h("th", null, "Node"), h("th", { class: "num" }, "Leaders now"), h("th", { class: "num" }, "Leaders after"))), h("tbody", null, loads))), rows.element, go);
  }

  const element = h("div", null, title("Cluster"),
    card("Leaders and mirrors by node", bars), h("section", { class: "card" }, h("header", null, h("h2", null, "Nodes")), nodes.element), forecast,
    may.administer() ? card("Rebalance", preview, h("button", { onclick: () => act(showPreview, "") }, "Preview")) : null);
  return { title: "Cluster", element, load };
}

function nodeTable(onForecast) {
  return table({ key: (row) => row.name, label: "nodes", columns: [
    { title: "Node", class: "name", text: (row) => row.name },
    { title: "State", text: (row) => `${row.running}${row.maintenance}`, node: (row) => (row.running ? badge(row.maintenance ? "maintenance" : "running", row.maintenance ? "warn" : "good") : badge("down", "bad")) },
    { title: "Version", roomy: true, text: (row) => row.version ?? "–" },
    { title: "Leaders", num: true, text: (row) => count(row.leaders) }, { title: "Mirrors", num: true, text: (row) => count(row.mirrors) },
    { title: "Memory", roomy: true, num: true, text: (row) => (row.running ? bytes(row.mem_used) : "–") }, { title: "Disk free", roomy: true, num: true, text: (row) => (row.running ? bytes(row.disk_free) : "–") },
    { title: "Up for", num: true, text: (row) => (row.running ? duration(row.uptime).replace(/ \d+ s$/, "") : "–") },
    { title: "Links", roomy: true, class: "wrap", text: (row) => (row.running ? `to ${row.cluster_links?.length ?? 0} of ${row.others}` : "–") },
    { title: "", text: (row) => String(row.running), node: (row) => (row.running ? h("button", { onclick: () => onForecast(row.name) }, "Stop forecast") : "") },
  ] });
}

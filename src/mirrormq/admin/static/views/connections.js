// Connections, and one of them.

import { del, get, seg } from "../api.js";
import { badge, card, confirm, facts, h } from "../dom.js";
import { act } from "../forms.js";
import { bytes, count, rate, when } from "../format.js";
import { listing } from "../listing.js";
import { crumb, title } from "../shell.js";
import { link, state } from "../state.js";
import { channelColumns } from "./channels.js";
import { table } from "../table.js";

export default function connections([name], refresh) {
  return name ? one(name) : all(refresh);
}

const client = (row) => [row.client_properties?.product, row.client_properties?.version].filter((part) => typeof part === "string").join(" ");

function all(refresh) {
  const list = listing({
    path: () => (state.vhost ? `api/vhosts/${seg(state.vhost)}/connections` : "api/connections"), label: "connections", key: (row) => row.name, refresh,
    empty: "No client is connected.",
    columns: [
      { title: "Name", sort: "name", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("connections", row.name) }, row.name) },
      { title: "Virtual host", roomy: true, sort: "vhost", text: (row) => row.vhost },
      { title: "User", sort: "user", text: (row) => row.user },
      { title: "State", sort: "state", text: (row) => row.state, node: (row) => badge(row.state, row.state === "running" ? "good" : "warn") },
      { title: "TLS", roomy: true, text: (row) => (row.ssl ? "yes" : "no") },
      { title: "Client", roomy: true, text: client },
      { title: "Node", roomy: true, sort: "node", text: (row) => row.node },
      { title: "Channels", sort: "channels", num: true, text: (row) => count(row.channels) },
      { title: "From client", sort: "recv_oct_details.rate", num: true, text: (row) => `${bytes(row.recv_oct_details?.rate ?? 0)}/s` },
      { title: "To client", sort: "send_oct_details.rate", num: true, text: (row) => `${bytes(row.send_oct_details?.rate ?? 0)}/s` },
    ],
  });
  return { title: "Connections", element: h("div", null, title("Connections"), list.element), load: list.load };
}

function one(name) {
  const about = facts();
  const channels = table({ key: (row) => row.name, label: "channels", empty: "It has no channel.", columns: channelColumns });
  const close = h("button", { class: "danger", onclick: async () => {
    if (await confirm("Close the connection?", `${name} is told that it was closed by an operator, and may connect again.`, "Close it")) {
      if (await act(() => del(`api/connections/${seg(name)}`, { "X-Reason": "closed by an operator with the management page" }), "The connection is closed.")) location.hash = link("connections");
    }
  } }, "Close the connection");

  async function load() {
    const [row, list] = await Promise.all([get(`api/connections/${seg(name)}`), get(`api/connections/${seg(name)}/channels`)]);
    about.show([
      ["User", row.user], ["Virtual host", row.vhost], ["Node", row.node], ["State", row.state], ["Client", client(row)],
      ["Protocol", row.protocol], ["TLS", row.ssl ? `${row.ssl_protocol ?? ""} ${row.ssl_cipher ?? ""}` : "no"],
      ["Peer", `${row.peer_host}:${row.peer_port}`], ["Connected at", when(row.connected_at)], ["Heartbeat", `${row.timeout} s`],
      ["Frame size", bytes(row.frame_max)], ["From client", `${bytes(row.recv_oct)} (${rate(row.recv_oct_details?.rate)})`],
      ["To client", `${bytes(row.send_oct)} (${rate(row.send_oct_details?.rate)})`],
    ]);
    channels.show(list);
  }

  const element = h("div", null, h("div", { class: "title" }, crumb(h("a", { href: link("connections") }, "Connections")), h("h1", null, name)),
    card("Details", about.element, close), h("section", { class: "card" }, h("header", null, h("h2", null, "Channels")), channels.element));
  return { title: name, element, load };
}

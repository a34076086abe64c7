// Channels, and one of them.

import { get, seg } from "../api.js";
import { badge, card, facts, h } from "../dom.js";
import { count, rate } from "../format.js";
import { listing } from "../listing.js";
import { crumb, title } from "../shell.js";
import { link, state } from "../state.js";
import { table } from "../table.js";

const mode = (row) => [row.confirm ? "confirm" : "", row.transactional ? "transactions" : ""].filter(Boolean).join(" ") || "–";

export const channelColumns = [
  { title: "Channel", sort: "name", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("channels", row.name) }, row.name) },
  { title: "Virtual host", roomy: true, sort: "vhost", text: (row) => row.vhost },
  { title: "User", sort: "user", text: (row) => row.user },
  { title: "State", sort: "state", text: (row) => row.state, node: (row) => badge(row.state, row.state === "running" ? "good" : "") },
  { title: "Mode", roomy: true, text: mode },
  { title: "Prefetch", roomy: true, sort: "prefetch_count", num: true, text: (row) => (row.prefetch_count ? count(row.prefetch_count) : "–") },
  { title: "Consumers", sort: "consumer_count", num: true, text: (row) => count(row.consumer_count) },
  { title: "Unacked", sort: "messages_unacknowledged", num: true, text: (row) => count(row.messages_unacknowledged) },
  { title: "Unconfirmed", sort: "messages_unconfirmed", num: true, text: (row) => count(row.messages_unconfirmed) },
  { title: "Publish", sort: "message_stats.publish_details.rate", num: true, text: (row) => rate(row.message_stats?.publish_details?.rate ?? 0) },
  { title: "Deliver", sort: "message_stats.deliver_get_details.rate", num: true, text: (row) => rate(row.message_stats?.deliver_get_details?.rate ?? 0) },
  { title: "Ack", sort: "message_stats.ack_details.rate", num: true, text: (row) => rate(row.message_stats?.ack_details?.rate ?? 0) },
];

export default function channels([name], refresh) {
  return name ? one(name) : all(refresh);
}

function all(refresh) {
  const list = listing({
    path: () => (state.vhost ? `api/vhosts/${seg(state.vhost)}/channels` : "api/channels"), label: "channels", key: (row) => row.name, refresh,
    empty: "No channel is open.", columns: channelColumns,
  });
  return { title: "Channels", element: h("div", null, title("Channels"), list.element), load: list.load };
}

export const consumerColumns = [
  { title: "Consumer tag", class: "name", text: (row) => row.consumer_tag },
  { title: "Queue", class: "wrap", text: (row) => row.queue?.name, node: (row) => h("a", { href: link("queues", row.queue.vhost, row.queue.name) }, row.queue.name) },
  { title: "Channel", class: "wrap", text: (row) => row.channel_details?.name, node: (row) => (row.channel_details?.name ? h("a", { href: link("channels", row.channel_details.name) }, row.channel_details.name) : "–") },
  { title: "Acknowledges", text: (row) => (row.ack_required ? "yes" : "no") },
  { title: "Exclusive", text: (row) => (row.exclusive ? "yes" : "no") },
  { title: "Prefetch", roomy: true, num: true, text: (row) => (row.prefetch_count ? count(row.prefetch_count) : "–") },
];

function one(name) {
  const about = facts();
  const consumers = table({ key: (row) => row.consumer_tag, label: "consumers", empty: "It consumes from no queue.", columns: consumerColumns });

  async function load() {
    const row = await get(`api/channels/${seg(name)}`);
    about.show([
      ["Connection", row.connection_details ? h("a", { href: link("connections", row.connection_details.name) }, row.connection_details.name) : "–"],
      ["User", row.user], ["Virtual host", row.vhost], ["Node", row.node], ["State", row.state], ["Mode", mode(row)],
      ["Prefetch of each consumer", row.prefetch_count || "no limit"], ["Prefetch of the channel", row.global_prefetch_count || "no limit"],
      ["Unacknowledged", count(row.messages_unacknowledged)], ["Unconfirmed", count(row.messages_unconfirmed)], ["Uncommitted", count(row.messages_uncommitted)],
      ["Published", count(row.message_stats?.publish ?? 0)], ["Delivered", count(row.message_stats?.deliver_get ?? 0)],
    ]);
    consumers.show(row.consumer_details ?? []);
  }

  const element = h("div", null, h("div", { class: "title" }, crumb(h("a", { href: link("channels") }, "Channels")), h("h1", null, name)),
    card("Details", about.element), h("section", { class: "card" }, h("header", null, h("h2", null, "Consumers")), consumers.element));
  return { title: name, element, load };
}

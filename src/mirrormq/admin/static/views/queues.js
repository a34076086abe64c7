// Queues: the list. One of them is in queue.js.

import { put, seg } from "../api.js";
import { h } from "../dom.js";
import { argumentsBox, field, form, input, parseArguments, select } from "../forms.js";
import { count, rate } from "../format.js";
import { listing } from "../listing.js";
import { queueBadges, vhostChoice } from "../pieces.js";
import { title } from "../shell.js";
import { link, state } from "../state.js";
import queue from "./queue.js";

const COLUMNS = "name,vhost,node,state,durable,exclusive,auto_delete,arguments,policy,slave_nodes,synchronised_slave_nodes,messages,messages_ready,messages_unacknowledged,consumers,message_stats";

export default function queues([vhost, name, ...rest], refresh) {
  return vhost === undefined ? all(refresh) : queue([vhost, name, ...rest], refresh);
}

const flow = (row, name) => row.message_stats?.[`${name}_details`]?.rate ?? 0;

function all(refresh) {
  const list = listing({
    path: () => (state.vhost ? `api/queues/${seg(state.vhost)}` : "api/queues"), label: "queues", key: (row) => JSON.stringify([row.vhost, row.name]), refresh,
    extra: { columns: COLUMNS }, empty: "There is no queue here.",
    columns: [
      { title: "Name", sort: "name", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("queues", row.vhost, row.name) }, row.name) },
      { title: "Virtual host", roomy: true, sort: "vhost", text: (row) => row.vhost },
      { title: "Leader", roomy: true, sort: "node", text: (row) => row.node },
      { title: "Features", roomy: true, text: (row) => queueBadges(row).map((one) => one.textContent).join(), node: (row) => h("span", { class: "badges" }, queueBadges(row)) },
      { title: "Ready", sort: "messages_ready", num: true, text: (row) => count(row.messages_ready) },
      { title: "Unacked", sort: "messages_unacknowledged", num: true, text: (row) => count(row.messages_unacknowledged) },
      { title: "Total", sort: "messages", num: true, text: (row) => count(row.messages) },
      { title: "Consumers", sort: "consumers", num: true, text: (row) => count(row.consumers) },
      { title: "In", sort: "message_stats.publish_details.rate", num: true, text: (row) => rate(flow(row, "publish")) },
      { title: "Out", sort: "message_stats.deliver_get_details.rate", num: true, text: (row) => rate(flow(row, "deliver_get")) },
      { title: "Ack", roomy: true, sort: "message_stats.ack_details.rate", num: true, text: (row) => rate(flow(row, "ack")) },
    ],
  });
  return { title: "Queues", element: h("div", null, title("Queues"), list.element, adding(refresh)), load: list.load };
}

function adding(refresh) {
  const known = ["x-message-ttl=", "x-expires=", "x-max-length=", "x-max-length-bytes=", "x-overflow=reject-publish", "x-dead-letter-exchange=", "x-dead-letter-routing-key=",
    "x-max-priority=", "x-single-active-consumer=true", "x-queue-master-locator=min-masters"];
  const made = form([
    vhostChoice(), field("Name", input("name", { required: true })), field("Durability", select("durable", [["true", "durable"], ["false", "transient"]])),
    field("Delete it when its last consumer goes", select("auto_delete", [["false", "no"], ["true", "yes"]])), argumentsBox("arguments", known),
  ], "Add queue", async (values) => {
    await put(`api/queues/${seg(values.vhost)}/${seg(values.name)}`, { durable: values.durable === "true", auto_delete: values.auto_delete === "true", arguments: parseArguments(values.arguments) });
    return `Queue ${values.name} is there.`;
  }, { onDone: refresh });
  return h("details", { class: "fold" }, h("summary", null, "Add a queue"), h("div", { class: "body" }, made));
}

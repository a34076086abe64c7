// The form that publishes one message.

import { post, seg } from "./api.js";
import { h } from "./dom.js";
import { argumentsBox, field, form, input, parseArguments, select } from "./forms.js";

export function publishForm(vhost, exchange, key, onDone) {
  const payload = h("label", { class: "field wide" }, h("span", null, "Payload"), h("textarea", { name: "payload", rows: 4 }));
  return form([
    field("Routing key", input("routing_key", { value: key })), field("Delivery", select("mode", [["2", "persistent"], ["1", "transient"]])),
    field("Payload is", select("encoding", [["string", "text"], ["base64", "base64"]])), payload,
    argumentsBox("headers", [], { label: "Headers", rows: 2 }),
    argumentsBox("properties", ["content_type=text/plain", "correlation_id=", "reply_to=", "expiration=", "priority=", "message_id=", "type="], { label: "Properties", rows: 2 }),
  ], "Publish", async (values) => {
    const properties = { ...parseArguments(values.properties, "properties"), delivery_mode: Number(values.mode) };
    for (const name of Object.keys(properties)) if (!["priority", "timestamp", "delivery_mode"].includes(name)) properties[name] = String(properties[name]);
    properties.headers = parseArguments(values.headers, "headers");
    const told = await post(`api/exchanges/${seg(vhost)}/${seg(exchange || "amq.default")}/publish`,
      { routing_key: values.routing_key, payload: values.payload, payload_encoding: values.encoding, properties });
    return told.routed ? "Published; the message is stable in its queues." : "Published, but no queue was bound for it: the message is gone.";
  }, { onDone, keepValues: true });
}

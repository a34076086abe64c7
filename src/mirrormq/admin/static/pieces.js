// Pieces that several views share.

import { badge, h } from "./dom.js";
import { field, select } from "./forms.js";
import { may, state } from "./state.js";

// The virtual hosts in which the reader may do something.
export function vhostChoice(name = "vhost") {
  const names = Object.keys(state.me.permissions).sort();
  return field("Virtual host", select(name, names, { chosen: state.vhost || "/" }));
}

export function queueBadges(row) {
  const found = [];
  if (row.state === "down" || row.state === "crashed") found.push(badge(row.state, "bad"));
  if (row.durable === false) found.push(badge("transient"));
  if (row.exclusive) found.push(badge("exclusive"));
  if (row.auto_delete) found.push(badge("auto-delete"));
  const mirrors = row.slave_nodes;
  if (mirrors) {
    const synced = row.synchronised_slave_nodes?.length ?? 0;
    found.push(badge(`+${mirrors.length}`, synced === mirrors.length && synced ? "good" : "warn"));
  }
  if (row.arguments?.["x-max-priority"]) found.push(badge(`priorities 0–${row.arguments["x-max-priority"]}`));
  if (row.arguments?.["x-single-active-consumer"]) found.push(badge("single active consumer"));
  if (row.policy) found.push(badge(row.policy, "accent"));
  return found;
}

export const onlyWhere = (vhost, element) => (may.enter(vhost) ? element : h("div", { class: "note" }, "You have no permissions in this virtual host."));

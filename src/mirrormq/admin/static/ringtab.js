// The ring of a queue: drawn live, how its leader changed, what was cut off and what can be taken back.

import { get, post, seg } from "./api.js";
import { badge, card, confirm, facts, h, set, text } from "./dom.js";
import { act } from "./forms.js";
import { bytes, count, plural, when } from "./format.js";
import { describe, ringPicture } from "./ring.js";
import { may } from "./state.js";
import { table } from "./table.js";

export function ringTab({ vhost, name, base, refresh }) {
  const picture = ringPicture();
  const sentence = h("div", { class: "note" });
  const about = facts();
  const members = memberTable();
  const history = h("ol", { class: "story" });
  const quarantine = quarantineTable({ base, vhost, refresh });
  const undo = undoTable({ vhost, refresh });

  async function load() {
    const [ring, failovers, cut, undone] = await Promise.all([
      get(`${base}/ring`), get(`${base}/failovers`), get(`${base}/quarantine`), get(`api/undo/${seg(vhost)}?name=${seg(name)}`)]);
    picture.show(ring);
    sync.hidden = !may.administer() || ring.learners.length === 0;
    text(sentence, ring.sentence);
    const waits = ring.leader === null;
    sentence.className = `note ${waits ? "bad" : ring.is_mirrored ? "good" : ""}`;
    about.show([
      ["Leader", ring.leader ?? "nobody"], ["Epoch", count(ring.epoch)], ["Last index", count(ring.end)], ["Stable up to", count(ring.stable)],
      ["In sync", waits ? "nobody that can lead" : `${ring.members.length} of ${ring.wanted} wanted`], ["Policy", ring.policy ?? "–"], ["In words", describe(ring)],
    ]);
    members.show([...ring.members.map((one, at) => ({ ...one, role: at ? "mirror" : waits ? "last leader" : "leader" })), ...ring.learners.map((one) => ({ ...one, role: "learner" })),
      ...ring.lakes.map((one) => ({ ...one, node: one.name, durable: one.acknowledged, received: one.acknowledged, role: "lake" }))]);
    showFailovers(failovers);
    quarantine.show(cut);
    undo.show(undone);
  }

  function showFailovers(list) {
    const signature = JSON.stringify(list);
    if (history.dataset.seen === signature) return;
    history.dataset.seen = signature;
    set(history, list.length ? list.map((one) => h("li", { class: one.lost || one.new_leader === null ? "bad" : one.lost === null ? "warn" : "" }, h("div", null, one.sentence),
      h("div", { class: "when" }, one.new_leader === null ? `now · ${one.old_leader} → nobody` : `${when(one.time_ms)} · epoch ${one.epoch} · ${one.old_leader} → ${one.new_leader} · served after ${one.serve_ms} ms · ${one.requeued} to be delivered again`))) : h("div", { class: "empty" }, "Its leader has never changed."));
  }

  const order = (action, words) => async () => { await act(() => post(`${base}/actions`, { action }), words); refresh(); };
  const sync = h("div", { class: "actions", hidden: true }, h("button", { onclick: order("sync", "The mirrors are being brought in sync.") }, "Sync"),
    h("button", { onclick: order("cancel_sync", "The sync is cancelled.") }, "Cancel sync"));
  const element = h("div", null, h("div", { class: "grid" }, card("Ring", [picture.element, sentence], sync), card("State", about.element)),
    h("section", { class: "card" }, h("header", null, h("h2", null, "Members")), members.element), card("Failovers", history),
    h("section", { class: "card" }, h("header", null, h("h2", null, "Quarantine")), quarantine.element),
    h("section", { class: "card" }, h("header", null, h("h2", null, "Undo")), undo.element));
  return { element, load };
}

function memberTable() {
  const kinds = { leader: "accent", "last leader": "warn", mirror: "good", learner: "warn", lake: "" };
  return table({ key: (row) => row.role + row.node, label: "members of the ring", columns: [
    { title: "Node", class: "name", text: (row) => row.node },
    { title: "Role", text: (row) => row.role, node: (row) => badge(row.role, kinds[row.role]) },
    { title: "Received", num: true, text: (row) => count(row.received) },
    { title: "Durable", num: true, text: (row) => count(row.durable) },
    { title: "Behind", num: true, text: (row) => (row.lag_entries === null ? "not known" : row.lag_entries ? `${count(row.lag_entries)} entries${row.lag_bytes ? `, ${bytes(row.lag_bytes)}` : ""}` : "–") },
    { title: "Sync", text: (row) => `${row.sync_done}/${row.sync_total}`, node: (row) => (row.sync_total ? h("div", { class: "meter", title: `${count(row.sync_done)} of ${count(row.sync_total)}` }, h("div", { "width%": (100 * row.sync_done) / row.sync_total })) : "–") },
    { title: "Link", text: (row) => (row.is_linked === false ? "cut" : "up"), node: (row) => (row.is_linked === false ? badge("cut", "bad") : badge("up", "good")) },
  ] });
}

function quarantineTable({ base, vhost, refresh }) {
  const settle = (row, action, words) => async () => {
    const deed = action === "requeue" ? "Put them back" : "Throw them away";
    if (await confirm(`${deed}?`, `${plural(row.messages, "message")}, indexes ${row.first}–${row.last}. ${words}`, deed, { danger: action !== "requeue" })) {
      await act(() => post(`${base}/quarantine/${seg(row.id)}`, { action }), "Done.");
      refresh();
    }
  };
  return table({ key: (row) => row.id, label: "quarantine", empty: "Nothing was ever cut off this queue's log.", columns: [
    { title: "When", text: (row) => when(row.time_ms) }, { title: "Node", class: "name", text: (row) => row.node },
    { title: "Entries", num: true, text: (row) => `${row.first}–${row.last}` }, { title: "Messages", num: true, text: (row) => count(row.messages) },
    { title: "Reason", class: "wrap", text: (row) => row.reason },
    { title: "", text: (row) => row.id, node: (row) => (may.enter(vhost) ? h("div", { class: "actions" },
      h("button", { onclick: settle(row, "requeue", "They are appended to the queue, marked.") }, "Put back"),
      h("button", { class: "danger", onclick: settle(row, "discard", "They are lost for good.") }, "Throw away")) : "") },
  ] });
}

function undoTable({ vhost, refresh }) {
  const undo = (row) => async () => {
    if (await confirm("Take it back?", `${plural(row.messages, "message")} that the ${row.what} removed return to the queue.`, "Restore", { danger: false })) {
      await act(() => post(`api/undo/${seg(vhost)}/${seg(row.id)}`), "The messages are back.");
      refresh();
    }
  };
  return table({ key: (row) => row.id, label: "undo", empty: "There is nothing to take back.", columns: [
    { title: "What", class: "name", text: (row) => row.what }, { title: "When", text: (row) => when(row.time_ms) }, { title: "Possible until", text: (row) => when(row.until_ms) },
    { title: "Messages", num: true, text: (row) => count(row.messages) }, { title: "Size", num: true, text: (row) => bytes(row.bytes) },
    { title: "", text: (row) => row.id, node: (row) => (may.enter(vhost) ? h("button", { onclick: undo(row) }, "Restore") : "") },
  ] });
}

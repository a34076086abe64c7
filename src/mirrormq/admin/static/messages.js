// Messages of a queue: browse and search without consuming, one message's biography, publish, get.

import { get, post, query } from "./api.js";
import { add, badge, h, set } from "./dom.js";
import { field, form, input, select } from "./forms.js";
import { bytes, count, plural, when } from "./format.js";
import { onlyWhere } from "./pieces.js";
import { publishForm } from "./publish.js";
import { link } from "./state.js";

export function messages({ vhost, name, base, rest }) {
  const [index] = rest;
  const element = onlyWhere(vhost, index ? h("div", null, biography({ vhost, name, base, index })) : h("div", null, browser({ vhost, name, base }),
    h("details", { class: "fold" }, h("summary", null, "Publish a message"), h("div", { class: "body" }, publishForm(vhost, "", name, () => {}))),
    h("details", { class: "fold" }, h("summary", null, "Get messages (takes them from the queue)"), h("div", { class: "body" }, getting(base)))));
  return { element, load: async () => { await get(`${base}?columns=name`); } };
}

// What was looked for, made visible.
function marked(words, needle) {
  if (!needle) return [words];
  const found = [];
  const [low, small] = [words.toLowerCase(), needle.toLowerCase()];
  let at = 0;
  for (let next = low.indexOf(small); next >= 0 && low.length === words.length && found.length < 400; next = low.indexOf(small, at)) {
    found.push(words.slice(at, next), h("mark", null, words.slice(next, next + small.length)));
    at = next + small.length;
  }
  return [...found, words.slice(at)];
}

function message(row, { needle = "", story = null } = {}) {
  const properties = Array.isArray(row.properties) ? {} : row.properties;
  const words = row.payload_encoding === "string" ? row.payload : `base64: ${row.payload}`;
  const shownBytes = row.payload_encoding === "string" ? new TextEncoder().encode(row.payload).length : Math.floor((row.payload.length * 3) / 4);
  return h("article", { class: "message" },
    h("div", { class: "head" }, row.index !== undefined ? h("span", { class: "index" }, `#${row.index}`) : null,
      h("span", { class: "meta" }, row.exchange ? `${row.exchange} → ` : "", marked(row.routing_key, needle)),
      row.persistent === false ? badge("transient") : null, row.redelivered ? badge("redelivered", "warn") : null,
      row.expires ? badge(`expires ${when(row.expires)}`, "warn") : null, h("span", { class: "meta" }, bytes(row.payload_bytes)), story ? h("a", { href: story }, "Biography") : null),
    Object.keys(properties).length ? h("div", { class: "meta mono" }, marked(JSON.stringify(properties), needle)) : null,
    h("pre", { tabindex: "0", "aria-label": "payload" }, marked(words, needle), shownBytes < row.payload_bytes - 2 ? "…" : ""));
}

function browser({ vhost, name, base }) {
  const list = h("div");
  const said = h("div", { class: "pager", role: "status" });
  const more = h("button", { type: "button", hidden: true, onclick: () => go(false) }, "Go on");
  let next = "";
  let scanned = 0;
  let found = 0;
  let wish = {};

  async function go(anew) {
    if (anew) { set(list); next = ""; scanned = 0; found = 0; }
    more.disabled = true;
    try {
      const told = await get(`${base}/messages${query({ ...wish, after: next })}`);
      scanned += told.scanned;
      found += told.messages.length;
      add(list, told.messages.map((row) => message(row, { needle: wish.text, story: row.logged ? link("queues", vhost, name, "messages", String(row.index)) : null })));
      next = told.next;
      more.hidden = next === null;
      const hidden = wish.state && told.hidden ? ` ${plural(told.hidden, "transient message")} with clients cannot be shown.` : "";
      set(said, `${plural(found, "message")} shown, ${count(scanned)} looked at; the queue has ${count(told.messages_ready)} ready and ${count(told.messages_unacknowledged)} unacknowledged.${hidden} `, more);
    } finally {
      more.disabled = false;
    }
  }

  const made = form([
    field("Look for", input("text", { type: "search", placeholder: "any text", "data-filter": true })),
    field("In", select("in", [["any", "everything"], ["payload", "payload"], ["routing_key", "exchange and routing key"], ["properties", "headers and properties"]])),
    field("Messages that are", select("state", [["", "ready"], ["unacknowledged", "unacknowledged"]])),
    field("How many", select("count", ["20", "50", "200"])), field("Show of each", select("truncate", [["2048", "2 KiB"], ["256", "256 bytes"], ["65536", "64 KiB"]])),
  ], "Browse", async (values) => { wish = values; await go(true); }, { keepValues: true });
  made.classList.add("compact");
  return h("section", { class: "card", id: "browse" }, h("header", null, h("h2", null, "Browse and search"), badge("nothing is consumed", "good")), h("div", { class: "body" }, made), said, list);
}

function biography({ vhost, name, base, index }) {
  const head = h("div");
  const story = h("ol", { class: "story" });
  const foot = h("div");
  let step = 0;

  async function read(from) {
    const mine = ++step;
    const told = await get(`${base}/messages/${encodeURIComponent(index)}${query({ from })}`);
    if (mine !== step) return;
    if (!from) showHead(told);
    add(story, told.entries.map((entry) => h("li", { class: entry.kind }, h("div", null, entry.sentence),
      h("div", { class: "when" }, `${when(entry.time)} · address (${entry.epoch}, ${entry.index}) · ${entry.kind.toUpperCase()}`))));
    set(foot, told.next === null ? null : h("button", { onclick: () => read(told.next) }, `Read on from index ${count(told.next)} of ${count(told.end)}`));
  }

  function showHead(told) {
    const kinds = { ready: "good", unacknowledged: "warn", gone: "" };
    const holder = told.held_by ? `held by consumer ${told.held_by.consumer_tag ?? "(basic.get)"} of ${told.held_by.connection} since ${when(told.held_by.since)}` : "";
    set(head, h("p", null, badge(told.now, kinds[told.now] ?? ""), " ", holder), told.note ? h("div", { class: "note" }, told.note) : null,
      told.message ? message(told.message) : null);
  }

  const ask = form([field("Index", input("index", { inputmode: "numeric", pattern: "[0-9]+", value: index, required: true }))], "Show", async (values) => {
    location.hash = link("queues", vhost, name, "messages", values.index);
  }, { keepValues: true });
  read("").catch((fault) => set(foot, h("div", { class: "note bad" }, fault.message)));
  return h("section", { class: "card" }, h("header", null, h("h2", null, `Biography of message ${index}`), h("a", { href: link("queues", vhost, name, "messages") }, "Back to browsing")),
    h("div", { class: "body" }, h("p", { class: "meta" }, "Every entry of the queue's log that is about this message."), head, story, foot, ask));
}

function getting(base) {
  const list = h("div");
  const made = form([
    field("Then", select("ackmode", [["ack_requeue_true", "put them back (marked as redelivered)"], ["ack_requeue_false", "acknowledge them: they are gone"], ["reject_requeue_true", "reject, put them back"], ["reject_requeue_false", "reject: gone, or dead-lettered"]])),
    field("How many", input("count", { type: "number", min: 1, max: 1000, value: 1 })), field("Payload", select("encoding", [["auto", "as text if it is"], ["base64", "as base64"]])),
  ], "Get messages", async (values) => {
    const rows = await post(`${base}/get`, { ackmode: values.ackmode, count: Number(values.count), encoding: values.encoding, truncate: 65536 });
    set(list, rows.length ? rows.map((row) => message(row)) : h("div", { class: "empty" }, "The queue is empty."));
  }, { keepValues: true });
  return h("div", null, made, list);
}

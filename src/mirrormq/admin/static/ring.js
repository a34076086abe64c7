// The ring of a queue as a picture: leader on top, its mirrors clockwise in the order in which they would take over; below them who
// is not in sync yet, and the lake, fed by the last member.

import { h, s, set } from "./dom.js";
import { count, short } from "./format.js";

const DOT = 22;
const TOP = 58;

const trim = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

function lagging(member) {
  if (member.is_linked === false) return "does not answer";
  if (member.sync_total) return `syncing ${Math.floor((100 * member.sync_done) / member.sync_total)} %`;
  if (member.lag_entries === null) return `at ${count(member.durable)}, how far behind is not known`;
  return member.lag_entries ? `${short(member.lag_entries)} behind` : `at ${count(member.durable)}`;
}

// Where everything is, for a picture of so many pixels.
function layout(ring, width) {
  const narrow = width < 460;
  const radius = narrow ? Math.min(92, width / 2 - 70) : width < 540 ? 90 : 104;
  const middle = { x: width / 2, y: TOP + DOT + radius };
  const turn = (2 * Math.PI) / ring.members.length;
  const at = (angle) => ({ x: middle.x + radius * Math.sin(angle), y: middle.y - radius * Math.cos(angle) });
  const members = ring.members.map((one, place) => ({ one, place, ...at(turn * place), side: narrow ? 0 : Math.sign(Math.round(10 * Math.sin(turn * place))) }));
  const fed = [...ring.learners.map((one) => ["learner", one]), ...ring.lakes.map((one) => ["lake", one])];
  const bottom = Math.max(middle.y + radius, ...members.map((one) => one.y + DOT + (one.side ? 0 : one.place ? 36 : 0)));
  const below = fed.map(([kind, one], place) => ({ kind, one, x: (width / (fed.length + 1)) * (place + 1), y: bottom + 56, side: 0 }));
  return { narrow, radius, middle, members, below, height: fed.length ? bottom + 56 + DOT + 42 : bottom + 8 };
}

function dot({ kind, mark, sign, name, x, y, side, above, narrow, width }) {
  const room = side ? (side > 0 ? width - x : x) - DOT - 9 : 170;
  const words = trim(narrow ? name.split("@")[0] : name, narrow ? 12 : Math.floor(room / 7));
  const label = side ? { x: x + side * (DOT + 9), "text-anchor": side > 0 ? "start" : "end" } : { x, "text-anchor": "middle" };
  const first = side ? y - 2 : above ? y - DOT - 24 : y + DOT + 17;
  return s("g", { class: kind }, s("title", null, `${name}: ${kind.replace(" cut", "")}, ${mark}`), s("circle", { class: "member", cx: x, cy: y, r: DOT }),
    s("text", { class: "initial", x, y: y + 5, "text-anchor": "middle" }, sign), s("text", { ...label, y: first }, words), s("text", { class: "soft", ...label, y: first + 16 }, mark));
}

function draw(ring, width) {
  const { narrow, radius, middle, members, below, height } = layout(ring, width);
  const circle = { cx: middle.x, cy: middle.y, r: radius };
  const last = members.at(-1);
  const parts = [s("circle", { class: "orbit", ...circle }), s("circle", { class: "flow", ...circle }),
    below.map((one) => s("line", { class: "feed", x1: last.x, y1: last.y, x2: one.x, y2: one.y }))];
  for (const { one, place, x, y, side } of members) {
    const kind = `${place || ring.leader === null ? "mirror" : "leader"}${one.is_linked ? "" : " cut"}`;
    parts.push(dot({ kind, mark: lagging(one), sign: place + 1, name: one.node, x, y, side, above: place === 0, narrow, width }));
  }
  for (const { kind, one, x, y } of below) {
    const mark = kind === "lake" ? `${short(one.lag_entries)} behind` : lagging(one);
    parts.push(dot({ kind: one.is_linked === false ? `${kind} cut` : kind, mark, sign: kind === "lake" ? "≈" : "…", name: one.node ?? one.name, x, y, side: 0, narrow, width }));
  }
  const centre = { x: middle.x, "text-anchor": "middle" };
  parts.push(s("text", { class: "soft", ...centre, y: middle.y - 22 }, `epoch ${count(ring.epoch)}`), s("text", { class: "big", ...centre, y: middle.y + 6 }, count(ring.stable)),
    s("text", { class: "soft", ...centre, y: middle.y + 25 }, "stable index"));
  return { parts, height };
}

// Shows a ring again and again; entries that move make it flow.
export function ringPicture() {
  const canvas = s("svg", { role: "img" });
  const element = h("div", { class: "ring" }, canvas);
  let shown = null;

  function paint() {
    if (!shown) return;
    const width = Math.max(250, Math.min(560, element.clientWidth || 560));
    const { parts, height } = draw(shown, width);
    canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
    set(canvas, parts);
  }
  new ResizeObserver(paint).observe(element);

  return {
    element,
    show(ring) {
      canvas.setAttribute("aria-label", describe(ring));
      element.classList.toggle("flowing", shown !== null && ring.end > shown.end);
      if (JSON.stringify(shown) !== JSON.stringify(ring)) { shown = ring; paint(); }
    },
  };
}

export function describe(ring) {
  if (ring.leader === null) return `Nobody leads: ${ring.sentence}.`;
  const mirrors = ring.members.slice(1).map((one) => one.node);
  const learners = ring.learners.map((one) => one.node);
  return `${ring.leader} leads in epoch ${count(ring.epoch)}, ${mirrors.length ? `then ${mirrors.join(", ")}` : "no mirror is in sync"}`
    + `${learners.length ? `; not yet in sync: ${learners.join(", ")}` : ""}; stable up to index ${count(ring.stable)}.`;
}

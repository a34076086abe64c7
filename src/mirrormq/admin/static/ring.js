// The ring of a queue as a picture: leader on top, its mirrors in order round the circle, learners and lake fed by the last member.

import { h, s, set } from "./dom.js";
import { count, short } from "./format.js";

const WIDTH = 440;
const MIDDLE = WIDTH / 2;
const RADIUS = 122;
const DOT = 25;

const place = (angle, radius = RADIUS) => [MIDDLE + radius * Math.sin(angle), MIDDLE - 8 - radius * Math.cos(angle)];
const bare = (node) => (node.length > 22 ? `${node.slice(0, 21)}…` : node);

function dot(kind, angle, radius, member, role, mark) {
  const [x, y] = place(angle, radius);
  const below = Math.cos(angle) > 0.5 && radius === RADIUS ? -DOT - 24 : DOT + 16;
  return s("g", { class: kind },
    s("title", null, `${member.node ?? member.name}: ${role}, ${mark}`),
    s("circle", { class: "member", cx: x, cy: y, r: DOT }),
    s("text", { class: "initial", x, y: y + 5 }, role[0].toUpperCase()),
    s("text", { x, y: y + below }, bare(member.node ?? member.name)),
    s("text", { class: "soft", x, y: y + below + 15 }, mark));
}

function lagging(member) {
  if (member.sync_total) return `syncing ${Math.floor((100 * member.sync_done) / member.sync_total)} %`;
  return member.lag_entries ? `${short(member.lag_entries)} behind` : `at ${count(member.durable)}`;
}

function draw(ring) {
  const turn = (2 * Math.PI) / ring.members.length;
  const parts = [s("circle", { class: "orbit", cx: MIDDLE, cy: MIDDLE - 8, r: RADIUS }), s("circle", { class: "flow", cx: MIDDLE, cy: MIDDLE - 8, r: RADIUS })];
  const last = place(turn * (ring.members.length - 1));
  const fed = [...ring.learners.map((one) => ["learner", one]), ...ring.lakes.map((one) => ["lake", one])];
  fed.forEach(([kind, one], at) => {
    const angle = turn * (ring.members.length - 1) + (at + 1) * Math.min(0.75, turn / (fed.length + 1));
    const [x, y] = place(angle, RADIUS + 62);
    parts.push(s("line", { class: "feed", x1: last[0], y1: last[1], x2: x, y2: y }));
    parts.push(dot(kind, angle, RADIUS + 62, one, kind, kind === "lake" ? `${short(one.lag_entries)} behind` : lagging(one)));
  });
  ring.members.forEach((one, at) => {
    parts.push(dot(`${at ? "mirror" : "leader"}${one.is_linked ? "" : " cut"}`, turn * at, RADIUS, one, at ? "mirror" : "leader", lagging(one)));
  });
  const ends = [...ring.members.map((_, at) => place(turn * at)[1] + DOT + 40), ...fed.map((_, at) => place(turn * (ring.members.length - 1) + (at + 1) * 0.75, RADIUS + 62)[1] + DOT + 40)];
  parts.height = Math.max(MIDDLE + RADIUS + 6, ...ends);
  parts.push(s("text", { class: "soft", x: MIDDLE, y: MIDDLE - 34 }, `epoch ${ring.epoch}`));
  parts.push(s("text", { class: "big", x: MIDDLE, y: MIDDLE - 6 }, count(ring.stable)));
  parts.push(s("text", { class: "soft", x: MIDDLE, y: MIDDLE + 14 }, "stable index"));
  return parts;
}

// Shows a ring again and again; entries that move make it flow.
export function ringPicture() {
  const canvas = s("svg", { role: "img" });
  const element = h("div", { class: "ring" }, canvas);
  let before = null;
  return {
    element,
    show(ring) {
      canvas.setAttribute("aria-label", describe(ring));
      const parts = draw(ring);
      canvas.setAttribute("viewBox", `0 18 ${WIDTH} ${parts.height - 18}`);
      set(canvas, parts);
      element.classList.toggle("flowing", before !== null && ring.end > before);
      before = ring.end;
    },
  };
}

export function describe(ring) {
  const mirrors = ring.members.slice(1).map((one) => one.node);
  const learners = ring.learners.map((one) => one.node);
  return `Ring in epoch ${ring.epoch}: ${ring.leader} leads, ${mirrors.length ? `then ${mirrors.join(", ")}` : "no mirror in sync"}`
    + `${learners.length ? `; not yet in sync: ${learners.join(", ")}` : ""}; stable up to index ${ring.stable}.`;
}

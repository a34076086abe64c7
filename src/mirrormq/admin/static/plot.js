// A small plot of rates or lengths over time, drawn as SVG, and what is remembered to draw it.

import { h, s, set, text } from "./dom.js";
import { clock, short } from "./format.js";

const HEIGHT = 190;
const PAD = { left: 46, right: 10, top: 10, bottom: 22 };
export const SPAN = 600_000;

// Looks at counters, oldest first; rates are differences between them.
export class History {
  constructor() { this.looks = []; }

  seed(series) {
    if (this.looks.length) return;
    const byTime = new Map();
    for (const [name, samples] of Object.entries(series)) {
      for (const { timestamp, sample } of samples ?? []) {
        if (!byTime.has(timestamp)) byTime.set(timestamp, {});
        byTime.get(timestamp)[name] = sample;
      }
    }
    const ahead = Date.now() - Math.max(0, ...byTime.keys());         // the node's clock may differ from ours
    this.looks = [...byTime.entries()].sort((a, b) => a[0] - b[0]).map(([at, values]) => ({ at: at + ahead, values }));
    this.looks.pop();
    // Where nobody looked, the node repeats the last look: these are no news, unless it was for long.
    const same = (a, b) => Object.keys(a.values).every((name) => a.values[name] === b.values[name]);
    this.looks = this.looks.filter((look, at, all) => at === 0 || !same(look, all[at - 1]) || look.at - all[at - 1].at > 30_000);
  }

  add(values, at = Date.now()) {
    this.looks.push({ at, values });
    while (this.looks.length > 2 && this.looks[0].at < at - SPAN) this.looks.shift();
  }

  gauge(name) { return this.looks.filter((look) => look.values[name] !== undefined).map((look) => [look.at, look.values[name]]); }

  rate(name) {
    const points = [];
    const looks = this.looks.filter((look) => look.values[name] !== undefined);
    for (let at = 1; at < looks.length; at += 1) {
      const seconds = (looks[at].at - looks[at - 1].at) / 1000;
      const change = looks[at].values[name] - looks[at - 1].values[name];
      if (seconds > 0) points.push([looks[at].at, Math.max(0, change / seconds)]);
    }
    return points;
  }
}

function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 4, 6, 8, 10]) if (value <= step * power) return step * power;
  return value;
}

// series: [{name, label, unit}], points(name) -> [[time, value]]
export function plot({ label, series, unit = "" }) {
  const shown = new Set(series.map((one) => one.name));
  let width = 640;
  const canvas = s("svg", { role: "img", "aria-label": label });
  const values = new Map();
  const legend = h("div", { class: "legend" }, series.map((one, at) => {
    const value = h("b", null, "–");
    values.set(one.name, value);
    const box = h("input", { type: "checkbox", checked: true, onchange: () => { box.checked ? shown.add(one.name) : shown.delete(one.name); draw(); } });
    return h("label", { class: `s${at + 1}` }, box, h("i"), h("span", null, one.label), value);
  }));
  const element = h("div", { class: "plot" }, canvas, legend);
  let points = () => [];
  let span = 60_000;
  let pointer = null;

  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    pointer = ((event.clientX - box.left) / box.width) * width;
    draw();
  });
  canvas.addEventListener("pointerleave", () => { pointer = null; draw(); });

  new ResizeObserver(() => draw()).observe(canvas);

  function draw() {
    width = canvas.clientWidth || width;
    canvas.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const lines = series.map((one, at) => ({ ...one, at, points: points(one.name) }));
    const all = lines.flatMap((line) => line.points);
    const end = all.length ? Math.max(...all.map((point) => point[0])) : Date.now();
    const oldest = all.length ? Math.min(...all.map((point) => point[0])) : end;
    span = Math.min(SPAN, Math.max(60_000, end - oldest));
    const start = end - span;
    const visible = lines.filter((line) => shown.has(line.name));
    const top = niceTop(Math.max(1, ...visible.flatMap((line) => line.points.filter((point) => point[0] >= start).map((point) => point[1]))));
    const x = (time) => PAD.left + ((time - start) / span) * (width - PAD.left - PAD.right);
    const y = (value) => HEIGHT - PAD.bottom - (value / top) * (HEIGHT - PAD.top - PAD.bottom);
    set(canvas, grid(top, y, start, end, x), visible.map((line) => path(line, x, y, start)).reverse(), cursor(x, start, end));
    showValues(lines, start, end);
  }

  function grid(top, y, start, end, x) {
    const parts = [];
    for (let step = 0; step <= 4; step += 1) {
      const value = (top / 4) * step;
      parts.push(s("line", { class: "gridline", x1: PAD.left, x2: width - PAD.right, y1: y(value), y2: y(value) }));
      parts.push(s("text", { x: PAD.left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
    }
    const ticks = width < 420 ? 2 : 4;
    for (let step = 0; step <= ticks; step += 1) {
      const time = start + ((end - start) / ticks) * step;
      const anchor = step === 0 ? "start" : step === ticks ? "end" : "middle";
      parts.push(s("text", { x: x(time), y: HEIGHT - 5, "text-anchor": anchor }, clock(new Date(time))));
    }
    return parts;
  }

  function path(line, x, y, start) {
    const inside = line.points.filter((point) => point[0] >= start);
    if (!inside.length) return null;
    const steps = inside.map(([time, value], at) => `${at ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const area = `${steps}L${x(inside.at(-1)[0]).toFixed(1)} ${y(0)}L${x(inside[0][0]).toFixed(1)} ${y(0)}Z`;
    return s("g", { class: `s${line.at + 1}` }, s("path", { class: "area", d: area }), s("path", { class: "line", d: steps }));
  }

  function cursor(x, start, end) {
    if (pointer === null) return null;
    const at = Math.max(PAD.left, Math.min(width - PAD.right, pointer));
    const time = start + ((at - PAD.left) / (width - PAD.left - PAD.right)) * (end - start);
    return [s("line", { class: "cursor", x1: at, x2: at, y1: PAD.top, y2: HEIGHT - PAD.bottom }),
      s("text", { x: Math.min(at + 5, width - 60), y: PAD.top + 10 }, clock(new Date(time)))];
  }

  function showValues(lines, start, end) {
    const time = pointer === null ? end : start + ((pointer - PAD.left) / (width - PAD.left - PAD.right)) * (end - start);
    for (const line of lines) {
      let best = null;
      for (const point of line.points) if (best === null || Math.abs(point[0] - time) < Math.abs(best[0] - time)) best = point;
      text(values.get(line.name), best === null ? "–" : `${short(best[1])}${unit}`);
    }
  }

  return { element, show(source) { points = source; draw(); } };
}

export function flows(series, stats) {
  const found = {};
  for (const one of series) found[one.name] = stats?.[one.name] ?? 0;
  return found;
}

export function samples(series, stats) {
  const found = {};
  for (const one of series) found[one.name] = stats?.[`${one.name}_details`]?.samples;
  return found;
}

export const FLOWS = [
  { name: "publish", label: "Publish" }, { name: "deliver_get", label: "Deliver / get" }, { name: "ack", label: "Acknowledge" },
  { name: "redeliver", label: "Redelivered" },
];
export const LENGTHS = [
  { name: "messages_ready", label: "Ready" }, { name: "messages_unacknowledged", label: "Unacked" }, { name: "messages", label: "Total" },
];

// The first look asks for what the node remembers; the others only that it goes on remembering.
export function sampled(past) {
  const age = past.looks.length ? 5 : 600;
  return `lengths_age=${age}&lengths_incr=5&msg_rates_age=${age}&msg_rates_incr=5`;
}

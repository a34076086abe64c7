// The page: logs in, finds the view for the address behind '#', and looks again as long as somebody is looking.

import { get, setToken, whenLost } from "./api.js";
import { h, set } from "./dom.js";
import { shell } from "./shell.js";
import { showTheme, state } from "./state.js";

const VIEWS = {
  "": () => import("./views/overview.js"),
  connections: () => import("./views/connections.js"),
  channels: () => import("./views/channels.js"),
  exchanges: () => import("./views/exchanges.js"),
  queues: () => import("./views/queues.js"),
  cluster: () => import("./views/cluster.js"),
  users: () => import("./views/users.js"),
  vhosts: () => import("./views/vhosts.js"),
  policies: () => import("./views/policies.js"),
  limits: () => import("./views/limits.js"),
};
const root = document.getElementById("app");
let frame = null;
let current = null;
let turn = 0;
let timer = 0;
let opened = 0;

function parts() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}

async function open() {
  const mine = ++turn;
  const [name, ...params] = parts();
  clearTimeout(timer);
  current?.close?.();
  current = null;
  frame.mark(name);
  const find = VIEWS[name];
  if (!find) return frame.fail("There is no such page.", "");
  try {
    const [made] = await Promise.all([find(), frame.renew()]);
    if (mine !== turn) return undefined;
    const view = made.default(params, refresh);
    current = view;
    frame.show(view);
    if (opened > 0) frame.focus();      // the first view is where the reader is anyway
    opened += 1;
    await refresh();
  } catch (fault) {
    if (mine === turn) frame.fail(fault.message, name);
  }
  return undefined;
}

// Looks once, and again after a while; a look that is under way is not doubled.
async function refresh() {
  clearTimeout(timer);
  const view = current;
  if (!view) return;
  try {
    await view.load();
    if (view === current) frame.lively(state.every > 0 ? "live" : "paused", "", location.hash);
  } catch (fault) {
    if (view !== current) return;
    if (fault.status === undefined) throw fault;
    frame.lively("broken", fault.message);
    if (fault.status === 404) { frame.fail("It is not there, or not any more.", parts()[0]); current = null; return; }
  }
  if (view === current && state.every > 0 && !document.hidden) timer = setTimeout(refresh, state.every);
}

async function enter(session) {
  state.me = session;
  setToken(session.token);
  opened = 0;
  frame = await shell({ refresh, leave: () => start(true) });
  set(root, frame.element);
  await open();
}

async function start(forced = false) {
  clearTimeout(timer);
  turn += 1;
  current = null;
  const session = forced ? { name: null } : await get("api/session");
  if (session.name) { await enter(session); return; }
  frame = null;
  const { login } = await import("./login.js");
  set(root, login(enter));
  root.querySelector("input").focus();
}

showTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
whenLost(() => { if (state.me) { state.me = null; start(true); } });
addEventListener("hashchange", () => { if (frame) open(); });
document.addEventListener("visibilitychange", () => { if (frame && !document.hidden) refresh(); });
start().catch((fault) => set(root, h("div", { class: "login" }, h("div", { class: "note bad" }, `MirrorMQ: ${fault.message}`))));

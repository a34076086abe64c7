// The frame around every view: navigation, virtual host, how live it is, light and dark, keys.

import { del, get } from "./api.js";
import { h, popup, set, text } from "./dom.js";
import { keep, link, may, showTheme, state } from "./state.js";

const ENTRIES = [
  ["", "Overview", "o", () => true], ["connections", "Connections", "c", () => true], ["channels", "Channels", "h", () => true],
  ["exchanges", "Exchanges", "e", () => true], ["queues", "Queues", "q", () => true], ["cluster", "Cluster", "n", may.monitor],
  [null, "Admin"],
  ["policies", "Policies", "p", () => true], ["limits", "Limits", "l", () => true], ["users", "Users", "u", may.administer],
  ["vhosts", "Virtual hosts", "v", may.administer],
];
const RHYTHMS = [[1000, "every second"], [2000, "every 2 s"], [5000, "every 5 s"], [30000, "every 30 s"], [0, "paused"]];

export async function shell({ refresh, leave }) {
  const [overview, vhosts] = await Promise.all([get("api/overview?columns=cluster_name,node,product_version"), get("api/vhosts?columns=name")]);
  const links = new Map();
  const nav = h("nav", { class: "nav", id: "nav", "aria-label": "Main" }, h("ul", null, ENTRIES.filter((entry) => !entry[3] || entry[3]()).map(([name, title, key]) => {
    if (name === null) return h("li", { class: "group" }, title);
    const made = h("a", { href: name ? link(name) : "#/", "aria-keyshortcuts": `g ${key}` }, title);
    links.set(name, made);
    return h("li", null, made);
  })));
  const menu = h("button", { class: "menu-button quiet", "aria-label": "Menu", "aria-controls": "nav", "aria-expanded": "false",
    onclick: () => menu.setAttribute("aria-expanded", String(nav.classList.toggle("open"))) }, "☰");
  const dot = h("span", { class: "live-dot" });
  const rhythm = h("select", { class: "rhythm", "aria-label": "How often to look again", onchange: () => {
    state.every = Number(rhythm.value);
    keep("every", rhythm.value);
    refresh();
  } }, RHYTHMS.map(([value, words]) => h("option", { value, selected: value === state.every }, words)));
  const place = h("select", { "aria-label": "Virtual host", onchange: () => { state.vhost = place.value; keep("vhost", place.value); refresh(); } },
    h("option", { value: "" }, "All virtual hosts"));
  offer(vhosts);
  const theme = h("button", { class: "quiet", "aria-label": "Light or dark", title: "Light or dark (t)", onclick: toggleTheme }, "◐");
  const trouble = h("div", { class: "note bad", role: "alert", hidden: true });
  const inside = h("div");
  const main = h("main", { class: "main", tabindex: "-1", id: "main" }, trouble, inside,
    h("p", { class: "foot" }, `${overview.node} · MirrorMQ ${overview.product_version} · `, h("a", { href: new URL("../api/index.html", import.meta.url) }, "HTTP API"),
      " · press ", h("kbd", null, "?"), " for keys"));
  const skip = h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "To the content");
  const element = h("div", { class: "frame" }, skip, h("header", { class: "bar" }, menu,
    h("a", { class: "brand", href: "#/" }, h("img", { src: new URL("icon.svg", import.meta.url), alt: "" }), h("span", null, "MirrorMQ")),
    h("span", { class: "cluster", title: "The cluster's name, and the node that answers" }, `cluster ${overview.cluster_name}, at node ${overview.node}`), h("span", { class: "space" }),
    place, dot, rhythm, theme,
    h("span", { class: "user-name" }, state.me.name), h("button", { class: "quiet", onclick: logOut }, "Log out")), nav, main);

  function offer(list) {
    const wanted = ["", ...list.map((one) => one.name)];
    if (!wanted.includes(state.vhost)) state.vhost = "";
    if ([...place.options].map((one) => one.value).join("\0") !== wanted.join("\0")) {
      set(place, wanted.map((name) => h("option", { value: name }, name || "All virtual hosts")));
    }
    place.value = state.vhost;
  }

  // Virtual hosts and permissions may have changed since.
  async function renew() {
    const [list, session] = await Promise.all([get("api/vhosts?columns=name"), get("api/session")]);
    offer(list);
    if (session.name) state.me = session;
  }

  function toggleTheme() {
    state.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    keep("theme", state.theme);
    showTheme();
  }

  async function logOut() {
    removeEventListener("keydown", onKey);
    await del("api/session").catch(() => {});
    state.me = null;
    history.replaceState(null, "", "#/");
    leave();
  }

  let armed = false;
  function onKey(event) {
    if (!element.isConnected) { removeEventListener("keydown", onKey); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) {
      if (event.key === "Escape") event.target.blur?.();
      return;
    }
    if (armed) {
      armed = false;
      const found = ENTRIES.find((entry) => entry[2] === event.key && links.has(entry[0]));
      if (found) { event.preventDefault(); location.hash = found[0] ? link(found[0]) : "#/"; }
      return;
    }
    const deeds = { g: () => { armed = true; setTimeout(() => { armed = false; }, 1500); }, r: refresh, t: toggleTheme, "?": showKeys,
      "/": () => main.querySelector("[data-filter]")?.focus() };
    if (deeds[event.key]) { event.preventDefault(); deeds[event.key](); }
  }
  addEventListener("keydown", onKey);

  function showKeys() {
    const keys = ENTRIES.filter((entry) => links.has(entry[0])).map(([, title, key]) => [["g", key], title]);
    keys.push([["/"], "Filter the list"], [["r"], "Look again"], [["t"], "Light or dark"], [["?"], "This help"]);
    popup("Keys", h("dl", { class: "facts" }, keys.map(([names, words]) => [h("dt", null, names.flatMap((name) => [h("kbd", null, name), " "])), h("dd", null, words)])));
  }

  return {
    element,
    mark(name) {
      for (const [key, made] of links) key === name ? made.setAttribute("aria-current", "page") : made.removeAttribute("aria-current");
      trouble.hidden = true;
      nav.classList.remove("open");
      menu.setAttribute("aria-expanded", "false");
    },
    renew: () => renew().catch(() => {}),
    show(view) {
      document.title = `${view.title} · MirrorMQ`;
      set(inside, view.element);
    },
    fail(words, name) {
      document.title = "MirrorMQ";
      set(inside, h("div", { class: "note bad" }, words), h("p", null, h("a", { href: name ? link(name) : "#/" }, name ? `Back to ${name}` : "To the overview")));
    },
    lively(kind, words = "", shown = null) {
      if (shown !== null) element.dataset.shown = shown;
      dot.className = `live-dot ${kind}`;
      dot.title = kind;
      trouble.hidden = kind !== "broken";
      text(trouble, words);
    },
    focus() { if (!main.contains(document.activeElement)) main.focus({ preventScroll: true }); scrollTo(0, 0); },
  };
}

export const title = (words, ...sub) => h("div", { class: "title" }, h("h1", null, words), sub);
export const crumb = (back, vhost) => h("div", { class: "crumb" }, back, vhost === undefined ? null : [" › virtual host ", h("b", null, vhost)]);

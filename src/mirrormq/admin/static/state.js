// What all views share: who is here, which virtual host is shown, how often to look again.

import { seg } from "./api.js";

const kept = (name, fallback) => { try { return localStorage.getItem(`mirrormq.${name}`) ?? fallback; } catch { return fallback; } };
export const keep = (name, value) => { try { localStorage.setItem(`mirrormq.${name}`, value); } catch { /* private browsing */ } };

export const state = {
  me: null,
  vhost: kept("vhost", ""),
  every: Number(kept("every", "2000")),
  theme: kept("theme", ""),
};

const has = (...tags) => state.me !== null && state.me.tags.some((tag) => tags.includes(tag));
export const may = {
  administer: () => has("administrator"),
  monitor: () => has("administrator", "monitoring"),
  makePolicies: () => has("administrator", "policymaker"),
  enter: (vhost) => vhost in state.me.permissions,
};

export function showTheme() {
  const dark = state.theme === "dark" || (state.theme === "" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  return dark;
}

export const link = (...parts) => "#/" + parts.map((part) => seg(part)).join("/");

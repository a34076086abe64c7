// Forms: fields by name, and one way to send them.

import { h, toast } from "./dom.js";
import { Refused } from "./api.js";

export const field = (label, control, hint) => h("label", { class: "field" }, h("span", null, label), control, hint ? h("small", null, hint) : null);
export const wide = (element) => { element.classList.add("wide"); return element; };
export const input = (name, props = {}) => h("input", { name, autocomplete: "off", spellcheck: "false", ...props });
export const select = (name, options, { chosen, ...props } = {}) =>
  h("select", { name, ...props }, options.map((one) => { const [value, words] = Array.isArray(one) ? one : [one, one]; return h("option", { value, selected: value === chosen }, words); }));
export const check = (name, label, props = {}) => h("label", { class: "check" }, h("input", { type: "checkbox", name, ...props }), label);

// A form that says what went wrong beside its button. send(values) does it; what it returns is told.
export function form(fields, deed, send, { onDone = () => {}, keepValues = false } = {}) {
  const fault = h("div", { class: "note bad wide", role: "alert", hidden: true });
  const button = h("button", { class: "primary" }, deed);
  const made = h("form", { class: "form" }, fields, fault, h("div", { class: "actions" }, button));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    fault.hidden = true;
    try {
      const told = await send(values(made), made);
      if (!keepValues) made.reset();
      if (told) toast(told);
      await onDone();
    } catch (refusal) {
      if (!(refusal instanceof Refused) && !(refusal instanceof Invalid)) throw refusal;
      fault.textContent = refusal.message;
      fault.hidden = false;
    } finally {
      button.disabled = false;
    }
  });
  return made;
}

export class Invalid extends Error {}

function values(made) {
  const found = {};
  for (const control of made.elements) {
    if (!control.name) continue;
    if (control.type === "checkbox") found[control.name] = control.checked;
    else if (control.type !== "radio" || control.checked) found[control.name] = control.value;
  }
  return found;
}

// "key = value" on each line; a value that is JSON is taken as such.
export function parseArguments(words, what = "arguments") {
  const found = {};
  for (const line of words.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Invalid(`${what}: "${line.trim()}" is not of the form key = value`);
    const value = line.slice(at + 1).trim();
    try { found[line.slice(0, at).trim()] = JSON.parse(value); } catch { found[line.slice(0, at).trim()] = value; }
  }
  return found;
}

export const argumentsBox = (name, known, props = {}) => {
  const box = h("textarea", { name, rows: 3, placeholder: "key = value, one on each line", spellcheck: "false", ...props });
  const chips = h("div", { class: "chips" }, known.map((one) => h("button", { type: "button", class: "chip", onclick: () => {
    const [key, value = ""] = one.split("=");
    box.value += `${box.value && !box.value.endsWith("\n") ? "\n" : ""}${key} = ${value}`;
    box.focus();
  } }, one)));
  return h("div", { class: "field wide" }, h("span", { id: `label-${name}` }, props.label ?? "Arguments"), (box.setAttribute("aria-labelledby", `label-${name}`), box), chips);
};

export async function act(deed, words) {
  try {
    await deed();
    if (words) toast(words);
    return true;
  } catch (refusal) {
    if (!(refusal instanceof Refused)) throw refusal;
    toast(refusal.message, "bad");
    return false;
  }
}

// Building the page. Names of queues, users and messages are hostile: text goes in as text nodes only, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "checked") element.checked = value;
    else if (name === "width%") element.style.width = `${Math.max(0, Math.min(100, value))}%`;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

export function set(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

export function text(element, value) {
  const wanted = String(value);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export const card = (title, body, ...aside) =>
  h("section", { class: "card" }, h("header", null, h("h2", null, title), aside.length ? h("div", { class: "actions" }, aside) : null),
    h("div", { class: "body" }, body));

export const badge = (word, kind = "") => h("span", { class: `badge ${kind}` }, word);

// A list of facts that keeps its elements: a reader may be selecting one while it is refreshed.
export function facts() {
  const element = h("dl", { class: "facts" });
  const known = new Map();
  return {
    element,
    show(pairs) {
      for (const [label, value] of pairs) {
        let row = known.get(label);
        if (!row) {
          row = { dt: h("dt", null, label), dd: h("dd"), seen: null };
          known.set(label, row);
          element.append(row.dt, row.dd);
        }
        const signature = value instanceof Node ? value.textContent : String(value ?? "–");
        if (row.seen === signature) continue;
        row.seen = signature;
        set(row.dd, value instanceof Node ? value : signature);
      }
    },
  };
}

export function toast(words, kind = "") {
  const note = h("div", { class: `toast ${kind}` }, words);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 9000 : 4000);
}

// Asks before something that cannot be taken back. Resolves to true or false.
export function confirm(title, words, deed, { danger = true } = {}) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": title },
      h("form", { method: "dialog" }, h("h2", null, title), h("p", null, words),
        h("div", { class: "actions" }, h("button", { value: "no" }, "Cancel"),
          h("button", { value: "yes", class: danger ? "danger primary" : "primary", autofocus: true }, deed))));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function popup(title, ...children) {
  const dialog = h("dialog", { "aria-label": title }, h("h2", null, title), children,
    h("form", { method: "dialog", class: "actions" }, h("button", { autofocus: true }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

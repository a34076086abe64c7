// Users: who may log in, and what they may do where.

import { del, get, put, seg } from "../api.js";
import { badge, card, confirm, facts, h } from "../dom.js";
import { Invalid, act, field, form, input, select } from "../forms.js";
import { crumb, title } from "../shell.js";
import { link } from "../state.js";
import { table } from "../table.js";

const TAGS = ["administrator", "monitoring", "policymaker", "management", "impersonator"];

export default function users([name], refresh) {
  return name ? one(name, refresh) : all(refresh);
}

const tagsOf = (row) => (Array.isArray(row.tags) ? row.tags : String(row.tags).split(",")).filter(Boolean);

function tagChoice() {
  const box = input("tags", { placeholder: "none: no access to this page" });
  const chips = h("div", { class: "chips" }, TAGS.map((tag) => h("button", { type: "button", class: "chip", onclick: () => { box.value = [...new Set([...box.value.split(",").map((one) => one.trim()).filter(Boolean), tag])].join(","); } }, tag)));
  const made = field("Tags", box);
  made.append(chips);
  made.classList.add("wide");
  return made;
}

function secret(values) {
  if (values.password !== values.again) throw new Invalid("The two passwords differ.");
  return values.password ? { password: values.password } : { password_hash: "" };
}

function all(refresh) {
  const rows = table({ key: (row) => row.name, label: "users", columns: [
    { title: "Name", class: "name", text: (row) => row.name, node: (row) => h("a", { href: link("users", row.name) }, row.name) },
    { title: "Tags", text: (row) => tagsOf(row).join(), node: (row) => h("span", { class: "badges" }, tagsOf(row).map((tag) => badge(tag, tag === "administrator" ? "accent" : ""))) },
    { title: "May enter", class: "wrap", text: (row) => row.vhosts.join(", ") || "no virtual host" },
    { title: "Password", text: (row) => (row.password_hash ? "set" : "none") },
  ] });
  const add = form([field("Name", input("name", { required: true })), field("Password", input("password", { type: "password", autocomplete: "new-password" })), field("Again", input("again", { type: "password", autocomplete: "new-password" })), tagChoice()],
    "Add user", async (values) => {
      await put(`api/users/${seg(values.name)}`, { ...secret(values), tags: values.tags });
      return `User ${values.name} is there.`;
    }, { onDone: refresh });

  async function load() {
    const [list, permissions] = await Promise.all([get("api/users"), get("api/permissions")]);
    rows.show(list.map((row) => ({ ...row, vhosts: permissions.filter((one) => one.user === row.name).map((one) => one.vhost) })));
  }
  return { title: "Users", element: h("div", null, title("Users"), h("div", { class: "card" }, rows.element), card("Add a user", add)), load };
}

function one(name, refresh) {
  const about = facts();
  const base = `api/users/${seg(name)}`;
  const clear = (row) => h("button", { class: "quiet", onclick: async () => {
    if (await confirm("Take the permission away?", `${name} may not enter ${row.vhost} any more.`, "Take it away")) { await act(() => del(`api/permissions/${seg(row.vhost)}/${seg(name)}`), "The permission is gone."); refresh(); }
  } }, "Clear");
  const rights = table({ key: (row) => row.vhost, label: "permissions", empty: "No virtual host may be entered.", columns: [
    { title: "Virtual host", class: "name", text: (row) => row.vhost }, { title: "Configure", class: "mono wrap", text: (row) => row.configure },
    { title: "Write", class: "mono wrap", text: (row) => row.write }, { title: "Read", class: "mono wrap", text: (row) => row.read },
    { title: "", text: (row) => row.vhost, node: clear },
  ] });
  const topics = table({ key: (row) => JSON.stringify([row.vhost, row.exchange]), label: "topic permissions", empty: "Every routing key is allowed.", columns: [
    { title: "Virtual host", class: "name", text: (row) => row.vhost }, { title: "Exchange", class: "wrap", text: (row) => row.exchange || "(AMQP default)" },
    { title: "Write", class: "mono wrap", text: (row) => row.write }, { title: "Read", class: "mono wrap", text: (row) => row.read },
    { title: "", text: (row) => row.vhost + row.exchange, node: (row) => h("button", { class: "quiet", onclick: async () => { await act(() => del(`api/topic-permissions/${seg(row.vhost)}/${seg(name)}`), "The topic permissions there are gone."); refresh(); } }, "Clear") },
  ] });
  const topicVhosts = select("vhost", []);
  const topicGrant = form([field("Virtual host", topicVhosts), field("Exchange", input("exchange", { value: "amq.topic" })), field("Write", input("write", { value: ".*" })), field("Read", input("read", { value: ".*" }))],
    "Set topic permission", async (values) => {
      await put(`api/topic-permissions/${seg(values.vhost)}/${seg(name)}`, { exchange: values.exchange, write: values.write, read: values.read });
      return "The topic permission is set.";
    }, { onDone: refresh, keepValues: true });
  const vhosts = select("vhost", []);
  const grant = form([field("Virtual host", vhosts), field("Configure", input("configure", { value: ".*" })), field("Write", input("write", { value: ".*" })), field("Read", input("read", { value: ".*" }))],
    "Set permission", async (values) => {
      await put(`api/permissions/${seg(values.vhost)}/${seg(name)}`, { configure: values.configure, write: values.write, read: values.read });
      return "The permission is set.";
    }, { onDone: refresh, keepValues: true });
  const update = form([field("New password", input("password", { type: "password", autocomplete: "new-password" }), "leave empty to keep it"), field("Again", input("again", { type: "password", autocomplete: "new-password" })), tagChoice()],
    "Update user", async (values) => {
      const row = await get(base);
      const pass = values.password || values.again ? secret(values) : { password_hash: row.password_hash, hashing_algorithm: row.hashing_algorithm };
      await put(base, { ...pass, tags: values.tags });
      return "The user is updated.";
    }, { onDone: refresh, keepValues: true });
  const remove = h("button", { class: "danger", onclick: async () => {
    if (await confirm(`Delete ${name}?`, "The user's connections are closed.", "Delete") && await act(() => del(base), `User ${name} is deleted.`)) location.hash = link("users");
  } }, "Delete the user");
  let first = true;

  async function load() {
    const [row, permissions, keys, places] = await Promise.all([get(base), get(`${base}/permissions`), get(`${base}/topic-permissions`), get("api/vhosts?columns=name")]);
    about.show([["Tags", tagsOf(row).join(", ") || "none"], ["Password", row.password_hash ? "set" : "none"], ["Hashing", row.hashing_algorithm]]);
    rights.show(permissions);
    topics.show(keys);
    if (first) {
      first = false;
      for (const choice of [vhosts, topicVhosts]) choice.append(...places.map((place) => h("option", { value: place.name }, place.name)));
      update.elements.tags.value = tagsOf(row).join(",");
    }
  }

  const element = h("div", null, h("div", { class: "title" }, crumb(h("a", { href: link("users") }, "Users")), h("h1", null, name)), card("Details", about.element, remove),
    h("section", { class: "card" }, h("header", null, h("h2", null, "Permissions")), rights.element), card("Set a permission", grant),
    h("section", { class: "card" }, h("header", null, h("h2", null, "Topic permissions")), topics.element),
    h("details", { class: "fold" }, h("summary", null, "Set a topic permission"), h("div", { class: "body" }, topicGrant)), card("Update", update));
  return { title: name, element, load };
}

// Virtual hosts, and who may enter them.

import { del, get, put, seg } from "../api.js";
import { card, confirm, h } from "../dom.js";
import { act, field, form, input } from "../forms.js";
import { count } from "../format.js";
import { title } from "../shell.js";
import { state } from "../state.js";
import { table } from "../table.js";

export default function vhosts(_, refresh) {
  const remove = (row) => h("button", { class: "quiet", onclick: async () => {
    if (await confirm(`Delete ${row.name}?`, "Everything in it goes: exchanges, queues, messages, permissions, policies.", "Delete it")) {
      await act(() => del(`api/vhosts/${seg(row.name)}`), `${row.name} is deleted.`);
      refresh();
    }
  } }, "Delete");
  const rows = table({ key: (row) => row.name, label: "virtual hosts", columns: [
    { title: "Name", class: "name", text: (row) => row.name },
    { title: "Description", class: "wrap", text: (row) => row.description ?? "" },
    { title: "Who may enter", class: "wrap", text: (row) => row.who.join(", ") || "nobody" },
    { title: "Ready", num: true, text: (row) => count(row.messages_ready ?? 0) },
    { title: "Unacked", num: true, text: (row) => count(row.messages_unacknowledged ?? 0) },
    { title: "", text: (row) => row.name, node: remove },
  ] });
  const add = form([field("Name", input("name", { required: true })), field("Description", input("description"))], "Add virtual host", async (values) => {
    await put(`api/vhosts/${seg(values.name)}`, { description: values.description });
    await put(`api/permissions/${seg(values.name)}/${seg(state.me.name)}`, { configure: ".*", write: ".*", read: ".*" });
    state.me.permissions = (await get("api/session")).permissions;
    return `Virtual host ${values.name} is there, and you may enter it.`;
  }, { onDone: refresh });

  async function load() {
    const [list, permissions] = await Promise.all([get("api/vhosts"), get("api/permissions")]);
    rows.show(list.map((row) => ({ ...row, who: permissions.filter((one) => one.vhost === row.name).map((one) => one.user) })));
  }
  return { title: "Virtual hosts", element: h("div", null, title("Virtual hosts"), h("div", { class: "card" }, rows.element), card("Add a virtual host", add)), load };
}

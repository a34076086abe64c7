// Logging in. The password goes to the node once, and is kept nowhere.

import { post } from "./api.js";
import { h, text } from "./dom.js";

export function login(enter) {
  const node = document.querySelector('meta[name="mirrormq-node"]').content;
  const user = h("input", { name: "username", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const fault = h("div", { class: "note bad", role: "alert", hidden: true });
  const button = h("button", { class: "primary" }, "Log in");

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      const session = await post("api/session", { username: user.value, password: password.value });
      password.value = "";
      await enter(session);
    } catch (refusal) {
      fault.hidden = false;
      text(fault, refusal.message === "Login failed" ? "Login failed: user name or password is wrong." : refusal.message);
      password.select();
    } finally {
      button.disabled = false;
    }
  }

  return h("main", { class: "login" }, h("form", { onsubmit: submit },
    h("div", { class: "brand" }, h("img", { src: new URL("icon.svg", import.meta.url), alt: "" }), h("h1", null, "MirrorMQ")),
    h("p", { class: "node" }, node), fault,
    h("label", { class: "field" }, h("span", null, "User name"), user),
    h("label", { class: "field" }, h("span", null, "Password"), password), button));
}

// Requests to the node that served this page. The session is a cookie that no script can read; changes carry the token besides.

const base = new URL("../", import.meta.url);
let token = "";
let onLost = () => {};

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export const setToken = (value) => { token = value; };
export const whenLost = (what) => { onLost = what; };
export const seg = (name) => encodeURIComponent(name);

function reasonOf(status, body) {
  const reason = body?.reason ?? body?.error;
  if (reason === undefined) return `the node answered ${status}`;
  const words = typeof reason === "string" ? reason : reason.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(": ");
  return words.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

export async function call(method, path, body, headers = {}) {
  const options = { method, credentials: "same-origin", headers: { "X-MirrorMQ-Page": "1", Accept: "application/json", ...headers } };
  if (method !== "GET") options.headers["X-MirrorMQ-Token"] = token;
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(new URL(path, base), options);
  } catch {
    throw new Refused(0, "the node does not answer");
  }
  const words = await answer.text();
  let told = null;
  try { told = words ? JSON.parse(words) : null; } catch { told = { reason: words }; }
  if (answer.status === 401 && told?.error === undefined) onLost();
  if (!answer.ok) throw new Refused(answer.status, reasonOf(answer.status, told));
  return told;
}

export const get = (path) => call("GET", path);
export const put = (path, body) => call("PUT", path, body);
export const post = (path, body) => call("POST", path, body);
export const del = (path, headers) => call("DELETE", path, undefined, headers);

export function query(values) {
  const parts = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return parts.length ? "?" + parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&") : "";
}

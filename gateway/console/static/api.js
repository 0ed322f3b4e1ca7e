import { token, signOut } from "./session.js";

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.message || body.title || `The gateway answered ${status}.`);
    this.status = status;
    this.code = String(body.error_code || "");
    this.body = body;
    this.errors = body.errors || [];
  }

  // What a person can do about it, in one sentence.
  get advice() {
    const { operation, resource_type: type, resource, retry_after_ms: wait } = this.body;
    if (this.status === 401) return "Sign in with a valid token.";
    if (this.status === 403 && operation) return `You need the right ${operation} on ${type} ${resource}.`;
    if (this.status === 429) return `The quota ${this.body.quota || ""} is used up. Retry in ${Math.ceil((wait || 1000) / 1000)} s.`;
    if (this.code === "OUTCOME_UNKNOWN") return "The change may have been made. Check before you repeat it.";
    if (this.body.retryable) return "Try again in a moment.";
    return "";
  }
}

// A path from a template: path`/v1/topics/${name}` encodes each part.
export const path = (texts, ...parts) => texts.reduce((whole, text, i) => whole + encodeURIComponent(parts[i - 1]) + text);

const query = (values) => {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(values || {}))
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") pairs.append(name, one);
  return pairs.size ? `?${pairs}` : "";
};

// The response of a call, or a Problem. `options`: method, body (sent as JSON), query, headers, accept, signal.
export async function request(route, options = {}) {
  const headers = { accept: options.accept || "application/json", ...options.headers };
  if (token()) headers.authorization = `Bearer ${token()}`;
  let body;
  if (options.body !== undefined) {
    body = JSON.stringify(options.body);
    headers["content-type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(route + query(options.query), { method: options.method || "GET", headers, body, signal: options.signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The gateway does not answer.", retryable: true });
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) signOut(token() ? "The gateway refused your token: it has expired or was revoked. Sign in again." : "");
  throw new Problem(response.status, answer);
}

const answered = async (route, options) => {
  const response = await request(route, options);
  return response.status === 204 ? null : response.json();
};

export const get = (route, options) => answered(route, options);
export const post = (route, body, options) => answered(route, { method: "POST", body, ...options });
export const put = (route, body, options) => answered(route, { method: "PUT", body, ...options });
export const patch = (route, body, options) => answered(route, { method: "PATCH", body, ...options });
export const remove = (route, options) => answered(route, { method: "DELETE", ...options });

// All pages of a list, up to `most` entries: {entries, more}.
export async function all(route, member, { most = 10000, query: asked, signal } = {}) {
  const entries = [];
  let after;
  do {
    const page = await get(route, { query: { ...asked, after, limit: Math.min(1000, most - entries.length) }, signal });
    entries.push(...page[member]);
    after = page.next;
  } while (after && entries.length < most);
  return { entries, more: Boolean(after) };
}

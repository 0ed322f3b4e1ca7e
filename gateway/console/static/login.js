// A login at the issuer of OpenID Connect: authorization code with PKCE, as a public client. The gateway judges the token, not this page.

const KEY = "tidelog.login";
const { issuer, client, scope } = document.documentElement.dataset;
const redirect_uri = `${location.origin}/`;

// Where a login is asked for; empty: the gateway has no client there.
export const where = client ? new URL(issuer).host : "";

const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

async function answer(url, body) {
  const response = await fetch(url, { method: body ? "POST" : "GET", body, cache: "no-store", signal: AbortSignal.timeout(15000) }).catch(() => {
    throw new Error(`${new URL(url).host} does not answer this page. oidc_issuer must be the issuer's own address, and the issuer must allow requests from ${location.origin}.`);
  });
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(`${where} refused the login: ${said.error_description || said.error || response.status}`);
  return said;
}
const discovered = () => answer(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`);

// Leaves this page for the issuer's.
export async function begin() {
  if (!crypto.subtle) throw new Error("Browsers can log in from https:// pages only. Paste a token instead.");
  const target = new URL((await discovered()).authorization_endpoint);
  const state = random(), verifier = random();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const asked = { response_type: "code", client_id: client, redirect_uri, scope, state, code_challenge: base64url(digest), code_challenge_method: "S256" };
  for (const [name, value] of Object.entries(asked)) target.searchParams.set(name, value);
  sessionStorage.setItem(KEY, JSON.stringify({ state, verifier, route: location.hash }));
  location.assign(target);
}

// Back from the issuer: its tokens, the one for programs first. null: this page was opened without a login.
export async function ended() {
  const given = Object.fromEntries(new URLSearchParams(location.search));
  if (!client || !given.state) return null;
  const { state, verifier: code_verifier, route = "" } = JSON.parse(sessionStorage.getItem(KEY)) || {};
  sessionStorage.removeItem(KEY);
  history.replaceState(null, "", redirect_uri + route);
  if (given.state !== state) throw new Error("This login was not started in this tab. Start it again.");
  if (!given.code) throw new Error(`${where} did not log you in: ${given.error_description || given.error}`);
  const { token_endpoint } = await discovered();
  const form = { grant_type: "authorization_code", code: given.code, redirect_uri, client_id: client, code_verifier };
  const { access_token, id_token } = await answer(token_endpoint, new URLSearchParams(form));
  return [access_token, id_token].filter(Boolean);
}

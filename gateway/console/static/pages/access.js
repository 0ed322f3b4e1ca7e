import { Empty, html, time, useRights, useSession, Value } from "../parts.js";
import { Acls, Quotas, Roles } from "./access_lists.js";
import { Tokens } from "./tokens.js";

const PARTS = { tokens: ["Tokens", Tokens], acls: ["ACLs", Acls], roles: ["Roles", Roles], quotas: ["Quotas", Quotas] };
const PROOFS = { token: "a token", jwt: "a login at your organisation", certificate: "a certificate", none: "none: authentication is off" };

const Me = ({ who }) => html`<section class="card"><h2>You</h2><dl class="facts">
  <dt>Principal</dt><dd><${Value} of=${who.principal} />${who.super_user && html` <span class="tag warn">super user</span>`}</dd>
  <dt>Credential</dt><dd>${PROOFS[who.authentication]}</dd>
  <dt>Groups</dt><dd><${Value} of=${who.groups.join(", ") || "none"} /></dd>
  <dt>Roles</dt><dd><${Value} of=${who.roles.join(", ") || "none"} /></dd>
  ${who.expires_at !== null && html`<dt>Valid until</dt><dd>${time(who.expires_at)}</dd>`}
</dl></section>`;

export default function ({ query: { part = "tokens" } }) {
  const { who } = useSession();
  const [mayAlter] = useRights(["Alter", "cluster", "cluster"]);
  const [, Part] = PARTS[part] || PARTS.tokens;
  return html`<div class="page">
    <div class="head"><h1>Access</h1></div>
    ${who && html`<${Me} who=${who} />`}
    ${!who ? "" : who.authentication === "none"
      ? html`<${Empty} title="Everyone may do everything"><p>Tokens, ACLs and quotas apply at gateways with <code>auth=on</code>.</p><//>`
      : !mayAlter ? html`<${Empty} title="Tokens, ACLs, roles and quotas are for administrators"><p>You need the right Alter on the cluster.</p><//>`
      : html`<nav class="tabs" aria-label="Access">${Object.entries(PARTS).map(([name, [label]]) => html`<a key=${name} href=${`#/access?part=${name}`} aria-current=${name === part ? "page" : undefined}>${label}</a>`)}</nav>
        <${Part} key=${part} />`}
  </div>`;
}

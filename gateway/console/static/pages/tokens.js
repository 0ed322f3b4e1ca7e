import {
  ago, all, DeleteDialog, Dialog, Field, FormDialog, html, Loaded, minor, PagedTable, path, post, readonly, remove, since,
  text, toast, useLoad, useState, words, Escaped,
} from "../parts.js";

const DAY_MS = 86400000;

const columns = (ask) => [
  text("principal", "Principal"),
  text("id", "Id", minor),
  text("description", "Description", minor),
  text("groups", "Groups", { ...minor, value: (row) => row.groups.join(", ") }),
  since("created_at", "Created", minor),
  text("ends", "Expires", { number: true, value: (row) => Math.max(0, ...row.secrets.map((one) => one.expires_at)), cell: (row) => row.secrets.length ? ago(row.secrets[0].expires_at) : html`<span class="tag bad">expired</span>` }),
  ...(readonly ? [] : [text("change", "Change", { value: null, cell: (row) => html`<div class="actions">
    <button aria-label=${`Rotate ${row.id}`} onClick=${() => ask({ rotate: row })}>Rotate</button>
    <button aria-label=${`Revoke ${row.id}`} onClick=${() => ask({ revoke: row })}>Revoke</button></div>` })]),
];

function Secret({ made, onClose }) {
  const copy = async (event) => {
    const field = event.target.closest("dialog").querySelector("input");
    field.select();
    await navigator.clipboard?.writeText(made.token); // absent without TLS: then it is selected at least
    toast(navigator.clipboard ? "Copied." : "Selected: copy it with the keyboard.");
  };
  return html`<${Dialog} title="The token" wide onClose=${onClose}>
    <div class="page">
      <p>This token is shown only once: the gateway keeps no copy. Store it now.</p>
      <${Field} label=${`Token of ${made.principal}`} readonly value=${made.token} />
      <div class="actions"><button class="primary" onClick=${copy}>Copy</button><button onClick=${onClose}>I have stored it</button></div>
    </div>
  <//>`;
}

export function Tokens() {
  const [asked, ask] = useState({});
  const tokens = useLoad((signal) => all("/v1/access/tokens", "tokens", { signal }));
  const close = () => ask({});
  const show = (made) => { tokens.reload(); ask({ made }); };
  const ends = ({ days }) => days ? { expires_at: Date.now() + days * DAY_MS } : {};
  const make = async (values) => show(await post("/v1/access/tokens", {
    principal: values.principal, description: values.description, groups: words(values.groups), ...ends(values) }));
  const rotate = async (values) => show(await post(path`/v1/access/tokens/${asked.rotate.id}:rotate`, { overlap_ms: Math.round(values.hours * 3600000), ...ends(values) }));
  const revoke = async () => {
    await remove(path`/v1/access/tokens/${asked.revoke.id}`);
    toast(`Token ${asked.revoke.id} is revoked.`);
    tokens.reload();
  };
  const days = html`<${Field} label="Expires in days" name="days" type="number" min="1" max="366" hint="Empty: 90" />`;
  return html`<div class="bar">${!readonly && html`<button onClick=${() => ask({ make: true })}>Create token</button>`}</div>
    <${Loaded} from=${tokens}>${({ entries }) => html`<${PagedTable} label="Tokens" what="token" columns=${columns(ask)} rows=${entries} rowKey=${(row) => row.id} empty="No tokens yet" />`}<//>
    ${asked.make && html`<${FormDialog} title="Create token" onClose=${close} action="Create" onSend=${make}>
      <${Field} label="Principal" name="principal" required value="User:" />
      <${Field} label="Groups" name="groups" hint="Group:…, separated by commas" />
      <${Field} label="Description" name="description" maxlength="1024" />
      ${days}<//>`}
    ${asked.rotate && html`<${FormDialog} title="Rotate token" onClose=${close} action="Rotate" onSend=${rotate}>
      <p>Token <span class="value"><${Escaped} of=${asked.rotate.id} /></span> of <span class="value"><${Escaped} of=${asked.rotate.principal} /></span> gets a new secret.</p>
      <${Field} label="Hours for which the old secret stays valid" name="hours" type="number" min="0" max="168" step="any" required value="24" />
      ${days}<//>`}
    ${asked.revoke && html`<${DeleteDialog} what="token" action="Revoke" name=${asked.revoke.id} onDelete=${revoke} onClose=${close}>
      <p>Programs of <span class="value"><${Escaped} of=${asked.revoke.principal} /></span> that use it are refused within seconds.</p><//>`}
    ${asked.made && html`<${Secret} made=${asked.made} onClose=${close} />`}`;
}

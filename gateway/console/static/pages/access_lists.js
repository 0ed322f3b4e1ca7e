import {
  all, DeleteDialog, Field, Form, FormDialog, html, Loaded, minor, number, PagedTable, path, post, put, readonly, remove,
  text, toast, useLoad, useState, words, Escaped,
} from "../parts.js";

const OPERATIONS = ["Read", "Write", "Describe", "Create", "Alter", "Delete", "All"];
const TYPES = ["topic", "group", "transactional_id", "subject", "cluster"];
const IDENTITY = ["principal", "permission", "operation", "resource_type", "pattern", "resource"];

// A list of /v1/access, a button that adds to it, and what `dialog(asked, done)` shows for the entry that was chosen.
function List({ of, what, columns, add, dialog, rowKey }) {
  const [asked, ask] = useState(null);
  const found = useLoad((signal) => all(`/v1/access/${of}`, of, { signal }));
  const done = (told) => { if (told) { toast(told); found.reload(); } ask(null); };
  return html`<div class="bar">${!readonly && html`<button onClick=${() => ask({})}>${add}</button>`}</div>
    <${Loaded} from=${found}>${({ entries }) => html`<${PagedTable} label=${what} what=${what} rows=${entries} rowKey=${rowKey} empty=${`No ${what}s yet`}
      columns=${[...columns, ...(readonly ? [] : [text("change", "Change", { value: null, cell: (row) => html`<button aria-label=${`Change ${rowKey(row)}`} onClick=${() => ask(row)}>Change</button>` })])]} />`}<//>
    ${asked && dialog(asked, done)}`;
}

const aclText = (acl) => IDENTITY.map((name) => acl[name]).join(" ");

function Question() {
  const [answer, show] = useState(null);
  const ask = async (values) => show(await post("/v1/access:test", { ...values, groups: words(values.groups) }));
  return html`<section class="card"><h2>Test access</h2>
    <${Form} class="bar" action="Test" onSend=${ask}>
      <${Field} label="Principal" name="principal" required value="User:" /><${Field} label="Groups" name="groups" />
      <${Field} label="Operation" name="operation" options=${OPERATIONS.slice(0, -1)} /><${Field} label="Type" name="resource_type" options=${TYPES} />
      <${Field} label="Name" name="resource" required /><//>
    ${answer && html`<p role="status"><span class=${`tag ${answer.allowed ? "ok" : "bad"}`}>${answer.allowed ? "allowed" : "denied"}</span> by
      ${" "}<span class="value">${answer.acl ? aclText(answer.acl) : answer.reason === "super_user" ? "being a super user" : "no ACL"}</span></p>`}
  </section>`;
}

export const Acls = () => html`<${List} of="acls" what="ACL" add="Add ACL" rowKey=${aclText}
  columns=${[text("principal", "Principal"), text("permission", "Permission", { cell: (row) => html`<span class=${`tag ${row.permission === "deny" ? "bad" : "ok"}`}>${row.permission}</span>` }),
    text("operation", "Operation"), text("resource_type", "Type"), text("resource", "Name", { value: (row) => row.pattern === "prefix" ? `${row.resource}…` : row.resource })]}
  dialog=${(acl, done) => acl.principal
    ? html`<${DeleteDialog} what="ACL" name=${acl.principal} onClose=${done} onDelete=${async () => { await remove("/v1/access/acls", { query: acl }); done("ACL deleted."); }}>
        <p class="value">${aclText(acl)}</p><//>`
    : html`<${FormDialog} title="Add ACL" onClose=${() => done()} action="Add" onSend=${async (values) => { await post("/v1/access/acls", { acls: [values] }); done("ACL added."); }}>
        <${Field} label="Principal" name="principal" required value="User:" hint="User:…, Group:…, Role:…, or * for everyone" />
        <${Field} label="Permission" name="permission" options=${["allow", "deny"]} />
        <${Field} label="Operation" name="operation" options=${OPERATIONS} />
        <${Field} label="Type" name="resource_type" options=${TYPES} />
        <${Field} label="Name" name="resource" required hint="*: every name; for the cluster: cluster" />
        <${Field} label="Match" name="pattern" options=${[["literal", "exactly this name"], ["prefix", "names with this prefix"]]} /><//>`} />
  <${Question} />`;

function RoleDialog({ role, done }) {
  const [dropping, drop] = useState(false);
  if (dropping)
    return html`<${DeleteDialog} what="role" name=${role.role} onClose=${done} onDelete=${async () => { await remove(path`/v1/access/roles/${role.role}`); done("Role deleted."); }}><p>Its members lose the rights that it gives.</p><//>`;
  return html`<${FormDialog} title=${role.role ? "Change role" : "Add role"} onClose=${() => done()} action="Save" onSend=${async (values) => { await put(path`/v1/access/roles/${role.role || values.role}`, { members: words(values.members) }); done("Role saved."); }}>
    ${role.role ? html`<p class="value"><${Escaped} of=${role.role} /></p>` : html`<${Field} label="Name" name="role" required hint="Without Role:" />`}
    <${Field} label="Members" name="members" rows="5" value=${(role.members || []).join("\n")} hint="User:… and Group:…, one per line" />
    ${role.role && html`<div><button type="button" onClick=${() => drop(true)}>Delete role</button></div>`}
  <//>`;
}

export const Roles = () => html`<${List} of="roles" what="role" add="Add role" rowKey=${(row) => row.role}
  columns=${[text("role", "Role"), number("count", "Members", { ...minor, value: (row) => row.members.length }), text("members", "Users and groups", { ...minor, value: (row) => row.members.join(", ").slice(0, 300) })]}
  dialog=${(role, done) => html`<${RoleDialog} role=${role} done=${done} />`} />`;

const LIMITS = [["produce_bytes_per_s", "Bytes produced/s"], ["fetch_bytes_per_s", "Bytes read/s"], ["requests_per_s", "Requests/s"],
  ["partitions_created_per_minute", "Partitions created/min"], ["connections", "Connections"], ["event_streams", "Event streams"]];

export const Quotas = () => html`<${List} of="quotas" what="quota" add="Add quota" rowKey=${(row) => row.principal}
  columns=${[text("principal", "Principal"), ...LIMITS.map(([name, label], i) => number(name, label, i > 2 ? minor : {}))]}
  dialog=${(quota, done) => html`<${FormDialog} title=${quota.principal ? "Change quota" : "Add quota"} onClose=${() => done()} action="Save" onSend=${async ({ principal, ...limits }) => {
      const body = Object.fromEntries(Object.entries(limits).filter(([, text]) => text).map(([name, text]) => [name, Number(text)]));
      await put(path`/v1/access/quotas/${quota.principal || principal}`, body);
      done("Quota saved.");
    }}>
    ${quota.principal ? html`<p class="value"><${Escaped} of=${quota.principal} /></p>` : html`<${Field} label="Principal" name="principal" required value="User:" hint="*: every user without a quota" />`}
    ${LIMITS.map(([name, label]) => html`<${Field} key=${name} label=${label} name=${name} type="number" min="1" max="1000000000000" value=${quota[name] ?? ""} hint="Empty: no limit" />`)}
  <//>`} />`;

// The pinned versions of a topic's table: which they are, what they hold back, one more, one less.
import {
  bytes, count, DeleteDialog, Field, Form, get, html, Loaded, number, path, post, remove, Table, text, time, toast, unsorted, useLoad, useState,
} from "../parts.js";

const DAY_MS = 86_400_000;
const COLUMNS = [
  text("name", "Pin"),
  number("version", "Version", { number: false }),
  number("created_at", "Created", { number: false, cell: (row) => time(row.created_at) }),
  number("expires_at", "Expires", { number: false, cell: (row) => row.expires_at === null ? "never" : time(row.expires_at) }),
  number("held_back_bytes", "Kept by the pin", { cell: (row) => row.held_back_bytes === null ? "unknown" : bytes(row.held_back_bytes) }),
];

export function Pins({ topic, mayAlter, onChange }) {
  const [doomed, doom] = useState(null);
  const load = useLoad((signal) => get(path`/v1/topics/${topic.name}/pins`, { signal }), [topic.name, (topic.pins || []).length]);
  const columns = mayAlter ? [...COLUMNS, text("delete", "", { ...unsorted, cell: (row) => html`<button onClick=${() => doom(row.name)}>Unpin…</button>` })] : COLUMNS;
  const send = async ({ name, days }, form) => {
    const pin = await post(path`/v1/topics/${topic.name}/pins`, { name: name.trim(), ...days && { ttl_ms: Number(days) * DAY_MS } });
    toast(`Version ${count(pin.version)} is pinned as ${pin.name}.`);
    form.reset();
    onChange();
  };
  return html`<section class="card" aria-labelledby="pins"><h2 id="pins">Pinned versions</h2>
    <p class="muted">A pinned version of the table stays readable by every Delta reader, whatever retention and maintenance do.</p>
    <${Loaded} from=${load}>${({ pins }) => html`<${Table} label="Pinned versions" columns=${columns} rows=${pins} rowKey=${(row) => row.name} sort=${["name", 1]} empty="No pinned versions" />`}<//>
    ${mayAlter && html`<${Form} action="Pin the current version" onSend=${send}><div class="fields">
      <${Field} label="Name of the pin" name="name" required maxlength="100" pattern="[A-Za-z0-9._\\-]+" />
      <${Field} label="Days" name="days" type="number" min="1" hint="Empty: until it is deleted" /></div><//>`}
    ${doomed && html`<${DeleteDialog} what="pin" action="Unpin" name=${doomed} onClose=${() => doom(null)} onDelete=${async () => {
      await remove(path`/v1/topics/${topic.name}/pins/${doomed}`);
      toast(`Pin ${doomed} is deleted.`);
      doom(null);
      onChange();
    }}><p>Maintenance then deletes what only this version has.</p><//>`}</section>`;
}

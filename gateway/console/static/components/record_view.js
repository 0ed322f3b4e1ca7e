import { html, useState } from "../vendored/preact.js";
import { get, path } from "../api.js";
import { bytes as size, count, timeExact } from "../format.js";
import { useLoad } from "../load.js";
import { bytesOf, hex, preview, pretty, text } from "../record.js";
import { decode } from "../schemas.js";
import { Null } from "./columns.js";
import { Dialog } from "./dialog.js";
import { Loaded } from "./states.js";

const TEXT_MAX = 200000, HEX_MAX = 8192;

const forms = {
  Decoded: (record) => record.value_decoded?.text === undefined ? null : pretty(record.value_decoded.text),
  JSON: (record) => text(record) === null ? null : text(record).length > TEXT_MAX ? null : pretty(text(record)),
  Text: (record) => text(record)?.slice(0, TEXT_MAX) ?? null,
  Hex: (record) => hex(bytesOf(record).subarray(0, HEX_MAX)),
};

function Value({ record }) {
  const bytes = bytesOf(record);
  const [chosen, choose] = useState(null);
  if (bytes === null) return html`<p><${Null} /> a tombstone</p>`;
  const found = Object.keys(forms).filter((name) => name === "Hex" || forms[name](record) !== null);
  const name = chosen || found[0];
  const cut = bytes.length > (name === "Hex" ? HEX_MAX : TEXT_MAX);
  return html`<div class="tabs" role="group" aria-label="Format">${found.map((one) => html`<button aria-pressed=${String(one === name)} onClick=${() => choose(one)}>${one}</button>`)}</div>
    <pre class="box" tabindex="0" aria-label="Value">${forms[name](record)}</pre>
    <${Schema} of=${record.value_decoded} />
    <p class="muted small">${size(bytes.length)}${cut && "; only the start is shown"}</p>`;
}

function Schema({ of }) {
  if (!of) return null;
  return html`<p class="small">Schema ${of.id}${of.type && ` (${of.type})`}${of.why && html`: <span class="warn">${of.why}</span>`}</p>`;
}

export function RecordDialog({ topic, partition, offset, onClose }) {
  const load = useLoad(async (signal) => {
    const found = await get(path`/v1/topics/${topic}/partitions/${partition}/records`, { query: { offset, max_records: 1 }, signal });
    const [record] = await decode(found.records.filter((one) => one.offset === offset));
    return record || null;
  }, [partition, offset]);
  return html`<${Dialog} wide title=${`Partition ${partition}, offset ${count(offset)}`} onClose=${onClose}>
    <${Loaded} from=${load} lines=${8}>${(record) => record === null ? html`<p>This record no longer exists: compaction kept a newer one with its key.</p>` : html`
      <div class="page">
        <dl class="facts"><dt>Time</dt><dd>${timeExact(record.timestamp)}</dd>
          <dt>Key</dt><dd class="value">${preview(record, "key", 2000) ?? html`<${Null} />`}</dd>
          ${record.headers.map((one) => html`<dt class="value">${one.key}</dt><dd class="value">${preview(one, "value", 2000) ?? html`<${Null} />`}</dd>`)}</dl>
        <div><${Value} record=${record} /></div>
      </div>`}<//>
  <//>`;
}

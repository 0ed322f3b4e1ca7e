// One record, beside the list that it comes from: a region of the page, not a modal dialog, so the list stays in reach.

import { html, useLayoutEffect, useRef, useState } from "../vendored/preact.js";
import { get, path } from "../api.js";
import { bytes as size, count, timeExact } from "../format.js";
import { useLoad } from "../load.js";
import { bytesOf, hex, pretty, text } from "../record.js";
import { link, withQuery } from "../router.js";
import { decode, diff } from "../schemas.js";
import { Member } from "./columns.js";
import { Escaped } from "./escaped.js";
import { Changes, FoldingJson } from "./json_view.js";
import { Loaded } from "./states.js";
import { toast } from "./toasts.js";

const TEXT_MAX = 200000, HEX_MAX = 8192, LOOKED_BACK = [1000, 10000, 100000];

const jsonOf = (record) => record.value_decoded?.text !== undefined ? pretty(record.value_decoded.text)
  : text(record) === null || text(record).length > TEXT_MAX ? null : pretty(text(record));
const forms = {
  Decoded: (record) => record.value_decoded?.text === undefined ? null : pretty(record.value_decoded.text),
  JSON: (record) => record.value_decoded?.text !== undefined ? null : jsonOf(record),
  Text: (record) => text(record)?.slice(0, TEXT_MAX) ?? null,
  Hex: (record) => hex(bytesOf(record).subarray(0, HEX_MAX)),
};

const copy = (what, told) => navigator.clipboard?.writeText(what).then(() => toast(`${told} copied.`));

const recordsOf = (topic, partition, query, signal) => get(path`/v1/topics/${topic}/partitions/${partition}/records`, { query, signal });

// The record before this one with the same key, or null where the newest LOOKED_BACK offsets have none.
async function previous(topic, record) {
  for (const back of LOOKED_BACK) {
    const from = Math.max(0, record.offset - back);
    const { log_start_offset: start } = await get(path`/v1/topics/${topic}/partitions/${record.partition}/offsets`);
    let at = Math.max(start, from), last = null;
    while (at < record.offset) {
      const page = await recordsOf(topic, record.partition, { offset: at, key: record.key, max_records: 1000, max_bytes: 4 << 20 });
      last = page.records.filter((one) => one.offset < record.offset).at(-1) || last;
      if (page.next_offset <= at) break;
      at = page.next_offset;
    }
    if (last || at === start || from <= start) return last && (await decode([last]))[0];
  }
  return null;
}

const comparable = (record) => record.value === null ? "null" : jsonOf(record) ?? text(record) ?? hex(bytesOf(record).subarray(0, HEX_MAX));

function Compared({ topic, record }) {
  const load = useLoad(() => previous(topic, record), [record.partition, record.offset]);
  return html`<${Loaded} from=${load}>${(before) => {
    if (!before) return html`<p>No older record with this key in the ${count(LOOKED_BACK.at(-1))} offsets before it.</p>`;
    const lines = diff(comparable(before), comparable(record));
    return html`<p class="small muted">From offset ${count(before.offset)} of ${timeExact(before.timestamp)} to this one</p>
      ${lines === null ? html`<p>The values are too long to be compared here.</p>` : html`<${Changes} of=${lines} />`}`;
  }}<//>`;
}

function Value({ topic, record }) {
  const bytes = bytesOf(record);
  const [chosen, choose] = useState(null);
  const found = bytes === null ? [] : Object.keys(forms).filter((name) => name === "Hex" || forms[name](record) !== null);
  const all = typeof record.key === "string" ? [...found, "Changes"] : found;
  const name = all.includes(chosen) ? chosen : found[0];
  const cut = bytes && bytes.length > (name === "Hex" ? HEX_MAX : TEXT_MAX);
  const shown = forms[name]?.(record);
  return html`<div class="tabs" role="group" aria-label="Format">${all.map((one) => html`<button aria-pressed=${String(one === name)} onClick=${() => choose(one)}>${one}</button>`)}</div>
    ${name === "Changes" ? html`<${Compared} topic=${topic} record=${record} />`
      : bytes === null ? html`<p><${Member} of=${record} /> a tombstone</p>`
      : ["JSON", "Decoded"].includes(name) && shown ? html`<${FoldingJson} of=${shown} label="Value" />`
      : bytes.length === 0 ? html`<p><${Member} of=${record} /></p>` : html`<pre class="box" tabindex="0" aria-label="Value"><${Escaped} of=${shown} /></pre>`}
    <${Schema} of=${record.value_decoded} />
    ${bytes && html`<p class="muted small">${size(bytes.length)}${cut && "; only the start is shown"}</p>`}`;
}

function Schema({ of }) {
  if (!of) return null;
  return html`<p class="small">Schema ${of.id}${of.type && ` (${of.type})`}${of.why && html`: <span class="warn">${of.why}</span>`}</p>`;
}

// `opened`: {partition, offset}. `onBefore`, `onAfter`: to its neighbours in the list, where there are some.
export function RecordDrawer({ topic, opened: { partition, offset }, onBefore, onAfter, onClose }) {
  const element = useRef();
  const load = useLoad(async (signal) => {
    const found = await recordsOf(topic, partition, { offset, max_records: 1 }, signal);
    const [record] = await decode(found.records.filter((one) => one.offset === offset));
    return record || null;
  }, [partition, offset]);
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current.focus();
    return () => before?.isConnected && before.focus();
  }, []);
  const press = (event) => {
    if (event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { Escape: onClose, j: onAfter, k: onBefore }[event.key];
    if (act) { event.preventDefault(); act(); }
  };
  // Of the whole page: a button that has just been disabled has lost the focus. Before the record is painted: a key typed at once is of this one.
  useLayoutEffect(() => { addEventListener("keydown", press); return () => removeEventListener("keydown", press); });
  const here = withQuery(link`/topics/${topic}/messages`, { partition, from: "offset", offset, open: `${partition}:${offset}` });
  return html`<div class="drawer card" role="dialog" aria-labelledby="record-title" tabindex="-1" ref=${element}>
    <div class="dialog-head"><h2 id="record-title">Partition ${partition}, offset ${count(offset)}</h2><button class="quiet" aria-label="Close" onClick=${onClose}>×</button></div>
    <div class="actions"><button disabled=${!onBefore} onClick=${onBefore} title="k">Previous</button><button disabled=${!onAfter} onClick=${onAfter} title="j">Next</button>
      <button onClick=${() => copy(`${location.origin}/${here}`, "Link")}>Copy link</button>
      ${load.data && html`<button onClick=${() => copy(JSON.stringify(sent(load.data)), "Record")}>Copy record</button>`}
      ${load.data && text(load.data) && html`<button onClick=${() => copy(text(load.data), "Value")}>Copy value</button>`}</div>
    <${Loaded} from=${load} lines=${8}>${(record) => record === null ? html`<p>There is no record at this offset: compaction kept a newer one with its key, or it is not written yet.</p>` : html`
      <dl class="facts"><dt>Time</dt><dd>${timeExact(record.timestamp)}</dd>
        <dt>Key</dt><dd class="value"><${Member} of=${record} name="key" most=${2000} /></dd>
        ${record.headers.map((one) => html`<dt class="value"><${Escaped} of=${one.key} /></dt><dd class="value"><${Member} of=${one} most=${2000} /></dd>`)}</dl>
      <div key=${`${partition}:${offset}`}><${Value} topic=${topic} record=${record} /></div>`}<//>
  </div>`;
}

// As the API takes it: without what this page has decoded.
const sent = (record) => Object.fromEntries(Object.entries(record).filter(([name]) => !name.endsWith("_decoded")));

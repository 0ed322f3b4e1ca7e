// Requests to erase what a topic has of a person: how far each is, and one more.
import {
  bytes, count, DeleteDialog, Field, get, html, Loaded, minor, number, path, plural, post, Table, text, time, toast, unsorted, useLoad, useState,
} from "../parts.js";

const AGAIN_MS = 10_000;
const STATUS = { requested: "warn", rewritten: "warn", gone: "ok" };
const COLUMNS = [
  number("requested_at", "Requested", { number: false, cell: (row) => time(row.requested_at) }),
  text("status", "Status", { cell: (row) => html`<span class=${`tag ${STATUS[row.status]}`}>${row.status}</span>` }),
  text("what", "What", { ...unsorted, cell: (row) => [row.keys > 0 && plural(row.keys, "key"), row.headers > 0 && plural(row.headers, "header"), row.where && "a condition", row.before !== null && `before ${time(row.before)}`].filter(Boolean).join(", ") }),
  number("records", "Records erased"),
  number("bytes", "Rewritten", { ...minor, cell: (row) => bytes(row.bytes) }),
  text("gone", "Deleted from the store", { ...unsorted, ...minor, cell: (row) => row.gone_at !== null ? time(row.gone_at) : row.files_until !== null ? `after ${time(row.files_until)}` : "–" }),
];

const lines = (text) => text.split(/\r?\n/).filter(Boolean);
function header(line) {
  const [key, ...value] = line.split(":");
  if (!value.length) throw new Error(`Write a header as name: value, not ${line}`);
  return { key: key.trim(), value: value.join(":").trim() };
}

export function Erasures({ topic, mayErase }) {
  const [asking, ask] = useState(false);
  const load = useLoad((signal) => get(path`/v1/topics/${topic.name}/erasures`, { signal }), [topic.name], AGAIN_MS);
  const send = async ({ keys, headers, where }) => {
    const made = await post(path`/v1/topics/${topic.name}/erasures`, { keys: lines(keys), headers: lines(headers).map(header), ...where && { where } });
    toast(`The erasure is requested; maintenance carries it out.${made.not_reached.length ? ` Not reached: ${made.not_reached.join("; ")}` : ""}`);
    load.reload();
  };
  return html`<section class="card" aria-labelledby="erasures"><div class="head"><h2 id="erasures">Erasures</h2>${mayErase && html`<button onClick=${() => ask(true)}>Erase personal data…</button>`}</div>
    <p class="muted">Requests to erase what the topic has of a person: from the log, the table, its archive and its older versions.</p>
    <${Loaded} from=${load}>${({ erasures }) => html`<${Table} label="Erasures" columns=${COLUMNS} rows=${erasures} rowKey=${(row) => row.erasure_id} sort=${["requested_at", -1]} empty="No requests to erase" />`}<//>
    ${asking && html`<${DeleteDialog} what="topic" title="Erase personal data" action="Erase" name=${topic.name} onClose=${() => ask(false)} onDelete=${send}>
      <p>All ${count(topic.partition_count)} partitions are searched. A record is erased that has any of these:</p>
      <${Field} label="Keys" name="keys" rows="3" hint="One per line" />
      <${Field} label="Headers" name="headers" rows="2" placeholder="name: value" hint="One per line" />
      <${Field} label="Condition on typed columns" name="where" placeholder="data.customer = 7" /><//>`}</section>`;
}

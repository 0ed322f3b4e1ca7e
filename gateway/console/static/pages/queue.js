import {
  count, DeleteDialog, duration, Field, Figures, FormDialog, get, go, html, link, Loaded, minor, number, PagedTable,
  path, plural, post, remove, since, Table, text, toast, useChanges, useLoad, useState, Escaped,
} from "../parts.js";
import { QueueDialog } from "./queue_settings.js";

const LOOKED_AT = 1000; // of each partition of the dead letter topic, from its end
const LETTERS = 20;
const CUT = 200;

const PARTITIONS = [
  text("partition", "Partition", { value: (row) => `${row.topic}/${row.partition}`, cell: (row) => html`<a class="value" href=${link`/topics/${row.topic}`}>${row.topic}/${row.partition}</a>` }),
  number("lag", "Backlog"),
  number("in_flight", "In flight"),
  number("delayed", "Delayed"),
  number("start_offset", "Settled up to", minor),
  number("blocked_ms", "Stalled", { ...minor, cell: (row) => row.blocked_ms ? duration(row.blocked_ms) : "–" }),
];

const header = (name) => (row) => row.headers.find(({ key }) => key === `tidelog-dlq-${name}`)?.value;
const DEAD = [
  text("from", "Record", { value: (row) => `${header("topic")(row)}/${header("partition")(row)} @ ${header("offset")(row)}` }),
  text("reason", "Reason", { value: header("reason") }),
  number("deliveries", "Deliveries", { ...minor, value: (row) => Number(header("deliveries")(row)) }),
  since("timestamp", "Dead-lettered"),
  text("value", "Value", { ...minor, value: (row) => row.value === null ? "null" : (row.value ?? `base64 ${row.value_base64}`).slice(0, CUT) }),
];

// The newest that this queue put there; redriven ones stay in the topic's log.
async function lettersOf(queue, topic, signal) {
  const { partitions } = await get(path`/v1/topics/${topic}`, { signal });
  const asked = partitions.filter((one) => one.high_watermark > one.log_start_offset).slice(0, 100).map((one) => ({
    topic, partition: one.partition, offset: Math.max(one.log_start_offset, one.high_watermark - LOOKED_AT), filter: { headers: [`tidelog-dlq-queue:${queue}`] } }));
  if (!asked.length) return [];
  const answer = await post("/v1/fetch", { partitions: asked, max_records: LOOKED_AT, max_bytes: 4194304 }, { signal });
  return answer.partitions.flatMap((one) => one.records || []).sort((a, b) => b.timestamp - a.timestamp).slice(0, LETTERS);
}

function DeadLetters({ queue, topic }) {
  const letters = useLoad((signal) => lettersOf(queue, topic, signal), [queue, topic], 10000);
  return html`<h2>Dead letters</h2>
    <p class="muted">The newest ones in <a class="value" href=${link`/topics/${topic}/messages`}><${Escaped} of=${topic} /></a>. Redriven ones stay in its log.</p>
    <${Loaded} from=${letters}>${(rows) => html`<${Table} label="Dead letters" columns=${DEAD} rows=${rows} rowKey=${(row) => `${row.partition}/${row.offset}`} empty="No dead letters" />`}<//>`;
}

function RedriveDialog({ queue, onClose, onDone }) {
  const send = async ({ to_topic, max_records, unproved }) => {
    const body = { ...(to_topic && { to_topic }), ...(max_records && { max_records: Number(max_records) }), unproved };
    const { redriven } = await post(path`/v1/queues/${queue}:redrive`, body);
    toast(`${plural(redriven, "dead letter")} redriven.`);
    onDone();
    onClose();
  };
  return html`<${FormDialog} title="Redrive dead letters" onClose=${onClose} action="Redrive" onSend=${send}>
    <p>Each dead letter of this queue is produced again exactly once.</p>
    <${Field} label="Target topic" name="to_topic" hint="Empty: each record's original topic" />
    <${Field} label="Maximum records" name="max_records" type="number" min="1" hint="Empty: all" />
    <${Field} label="Records without proof" name="unproved" options=${[["stop", "stop there"], ["skip", "skip them"], ["produce", "redrive them"]]} hint="They claim to be dead letters of this queue" />
  <//>`;
}

const Facts = ({ of }) => html`<dl class="facts">${[
  ["Topics", of.topics.join(", ")], ["Started at", typeof of.start === "object" ? `time ${of.start.timestamp}` : of.start], ["Lock", duration(of.lock_ms)],
  ["Maximum deliveries", count(of.max_deliveries)], ["Dead letter topic", of.dead_letter_topic || "none: dead letters are dropped"],
  ["Redelivery delays", of.backoff_ms.map(duration).join(", ") || "none"], ["Maximum in flight", `${count(of.max_in_flight)} per partition`],
  ["Order", of.order === "key" ? "one record of a key at a time" : "none"], ["Expired records", of.expired === "drop" ? "dropped" : "dead letters"],
  ["Filter", of.filter ? JSON.stringify(of.filter) : "none"],
  ["Dropped", of.dropped.records ? `${plural(of.dropped.records, "record")}, the newest ${of.dropped.newest.slice(-3).map((one) => `${one.topic}/${one.partition} @ ${one.first_offset} (${one.reason})`).join(", ")}` : "none"],
].map(([name, value]) => html`<dt key=${name}>${name}</dt><dd class="value"><${Escaped} of=${value} /></dd>`)}</dl>`;

export default function ({ params: { queue: name } }) {
  const [asked, ask] = useState(null);
  const [mayAlter, mayDelete] = useChanges(["Alter", "group", name], ["Delete", "group", name]);
  const route = path`/v1/queues/${name}`;
  const found = useLoad((signal) => get(route, { signal }), [name], 3000);
  const queue = found.data;
  const sum = (member) => queue.partitions.reduce((whole, one) => whole + one[member], 0);
  const drop = async () => {
    await remove(route);
    toast(`Queue ${name} is deleted.`);
    go("/queues");
  };
  const close = () => ask(null);
  return html`<div class="page">
    <div class="head">
      <div><p class="crumbs"><a href="#/queues">Queues</a></p><h1 class="value"><${Escaped} of=${name} /></h1></div>
      ${queue && html`<div class="actions">
        ${mayAlter && queue.dead_letter_topic && html`<button onClick=${() => ask("redrive")}>Redrive</button>`}
        ${mayAlter && html`<button onClick=${() => ask("settings")}>Settings</button>`}
        ${mayDelete && html`<button onClick=${() => ask("delete")}>Delete</button>`}</div>`}
    </div>
    <${Loaded} from=${found} lines=${8}>${() => html`
      <${Figures} of=${[
        ["Backlog", html`${count(sum("lag"))}<small>records</small>`],
        ["In flight", count(sum("in_flight"))],
        ["Delayed", count(sum("delayed"))],
      ]} />
      <h2>Partitions</h2>
      <${PagedTable} label="Partitions" what="partition" columns=${PARTITIONS} rows=${queue.partitions} rowKey=${(row) => `${row.topic}/${row.partition}`} empty="None of its topics exists" />
      ${queue.dead_letter_topic && html`<${DeadLetters} queue=${name} topic=${queue.dead_letter_topic} />`}
      <section class="card"><h2>Settings</h2><${Facts} of=${queue} /></section>`}<//>
    ${asked === "redrive" && html`<${RedriveDialog} queue=${name} onClose=${close} onDone=${found.reload} />`}
    ${asked === "settings" && html`<${QueueDialog} queue=${queue} onClose=${close} onDone=${found.reload} />`}
    ${asked === "delete" && html`<${DeleteDialog} what="queue" name=${name} onClose=${close} onDelete=${drop}>
      <p>Its topics are unchanged. Its settlements are deleted.</p><//>`}
  </div>`;
}

import { Field, FormDialog, go, html, link, path, put, toast, words } from "../parts.js";

const NEW = { topics: [], lock_ms: 30000, max_deliveries: 5, backoff_ms: [], max_in_flight: 2000, order: "none", expired: "drop" };
const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

function settings(values) {
  const filter = { ...(values.key && { key: values.key }), ...(lines(values.headers).length && { headers: lines(values.headers) }) };
  return {
    topics: words(values.topics),
    ...(values.start && { start: values.start }),
    lock_ms: Number(values.lock_ms),
    max_deliveries: Number(values.max_deliveries),
    dead_letter_topic: values.dead_letter_topic.trim() || null,
    backoff_ms: words(values.backoff_ms).map(Number),
    max_in_flight: Number(values.max_in_flight),
    order: values.order,
    expired: values.expired,
    filter: Object.keys(filter).length ? filter : null,
  };
}

// `queue`: whose settings are changed; without it one is made.
export function QueueDialog({ queue, onClose, onDone }) {
  const old = queue || NEW;
  const send = async (values) => {
    const name = queue ? queue.queue : values.name;
    await put(path`/v1/queues/${name}`, settings(values));
    toast(`Queue ${name} is ${queue ? "changed" : "created"}.`);
    onClose();
    if (queue) onDone();
    else go(link`/queues/${name}`.slice(1));
  };
  return html`<${FormDialog} title=${queue ? "Settings" : "Create queue"} wide onClose=${onClose} action=${queue ? "Save" : "Create"} onSend=${send}>
    <div class="fields">
    ${!queue && html`<${Field} label="Name" name="name" required />`}
    <${Field} label="Topics" name="topics" required value=${old.topics.join(", ")} hint="Separated by commas" />
    ${!queue && html`<${Field} label="Start" name="start" options=${[["latest", "the end: new records only"], ["earliest", "the earliest record"]]} />`}
    <${Field} label="Lock (ms)" name="lock_ms" type="number" min="1000" max="43200000" required value=${old.lock_ms} hint="How long a received record is locked" />
    <${Field} label="Maximum deliveries" name="max_deliveries" type="number" min="1" max="1000" required value=${old.max_deliveries} hint="After these a record becomes a dead letter" />
    <${Field} label="Dead letter topic" name="dead_letter_topic" value=${old.dead_letter_topic || ""} hint="An existing topic. Empty: dead letters are dropped" />
    <${Field} label="Redelivery delays (ms)" name="backoff_ms" value=${old.backoff_ms.join(", ")} hint="Before the second delivery, the third, …; the last one applies to all others" />
    <${Field} label="Maximum in flight" name="max_in_flight" type="number" min="1" max="100000" required value=${old.max_in_flight} hint="Per partition" />
    <${Field} label="Order" name="order" value=${old.order} options=${[["none", "none"], ["key", "one record of a key at a time"]]} />
    <${Field} label="Expired records" name="expired" value=${old.expired} options=${[["drop", "dropped"], ["dead_letter", "dead letters"]]} />
    <${Field} label="Headers" name="headers" rows="2" value=${(old.filter?.headers || []).join("\n")} hint="Only records with all of these, one per line: name:value, or name:* for any value" />
    <${Field} label="Key" name="key" value=${old.filter?.key || ""} hint="Only records with this key" />
    </div>
  <//>`;
}

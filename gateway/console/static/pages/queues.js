import { all, duration, Empty, Escaped, html, link, Loaded, minor, number, PagedTable, readonly, text, useLoad, useState } from "../parts.js";
import { QueueDialog } from "./queue_settings.js";

const COLUMNS = [
  text("queue", "Queue", { cell: (row) => html`<a class="value" href=${link`/queues/${row.queue}`}><${Escaped} of=${row.queue} /></a>` }),
  text("topics", "Topics", { value: (row) => row.topics.join(", ").slice(0, 200) }),
  text("dead_letter_topic", "Dead letters", minor),
  number("lock_ms", "Lock", { ...minor, cell: (row) => duration(row.lock_ms) }),
  number("max_deliveries", "Deliveries"),
  text("order", "Order", { ...minor, value: (row) => row.order === "key" ? "by key" : "none" }),
];

export default function () {
  const [making, make] = useState(false);
  const queues = useLoad((signal) => all("/v1/queues", "queues", { signal }), [], 5000);
  return html`<div class="page">
    <div class="head"><h1>Queues</h1>${!readonly && html`<button onClick=${() => make(true)}>Create queue</button>`}</div>
    <${Loaded} from=${queues} lines=${6}>${({ entries, more }) => html`
      <${PagedTable} label="Queues" what="queue" note=${more ? ", and more not listed" : ""} columns=${COLUMNS} rows=${entries} rowKey=${(row) => row.queue} sort=${["queue", 1]}
        empty=${html`<${Empty} title="No queues yet"><p>A queue delivers the records of topics one by one: each is locked and settled individually.</p><//>`} />`}<//>
    ${making && html`<${QueueDialog} onClose=${() => make(false)} />`}
  </div>`;
}

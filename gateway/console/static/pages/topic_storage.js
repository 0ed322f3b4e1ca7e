// What a topic's table has in the store: segments, commits, pinned versions, requests to erase, where it is.

import {
  ago, bytes, count, duration, Field, get, html, Loaded, minor, number, path, plural, Table, text, time, unsorted, useLoad, useState,
} from "../parts.js";
import { Clones } from "../components/clone.js";
import { Erasures } from "../components/erasures.js";
import { Pins } from "../components/pins.js";

const SEGMENTS = [
  text("start", "Offsets", { ...unsorted, cell: (row) => `${count(row.start_offset)} – ${count(row.end_offset - 1)}` }),
  number("records", "Records", { ...minor, ...unsorted, cell: (row) => count(row.end_offset - row.start_offset) }),
  number("size", "Stored", { ...unsorted, cell: (row) => bytes(row.stored_bytes) }),
  number("newest", "Newest record", { ...unsorted, cell: (row) => time(row.newest_timestamp) }),
  text("url", "Parquet", { ...minor, ...unsorted, cell: (row) => row.url?.startsWith("https://") ? html`<a href=${row.url} rel="noreferrer">download</a>` : html`<span class="value small muted">${row.key.split("/").pop()}</span>` }),
];
const COMMITS = [
  number("version", "Version", { number: false }),
  number("at", "Time", { number: false, cell: (row) => time(row.at) }),
  text("operation", "Operation"),
  text("by", "Committed by", minor),
  number("records", "New records"),
  number("marked", "Schema errors", minor),
  number("files", "Segments", { ...minor, ...unsorted, cell: (row) => `+${row.added} −${row.removed}` }),
];


// A bar for each segment: from the one before to its newest record, as high as its size.
function Strip({ segments }) {
  const [first, last] = [segments[0].newest_timestamp, segments[segments.length - 1].newest_timestamp];
  const most = Math.max(...segments.map((one) => one.stored_bytes));
  const x = (ms) => last > first ? ((ms - first) / (last - first)) * 960 + 20 : 20;
  return html`<svg class="strip" viewBox="0 0 1000 60" preserveAspectRatio="none" aria-hidden="true">${segments.map((one, i) => {
    const from = i ? x(segments[i - 1].newest_timestamp) : 0, height = 6 + 54 * (one.stored_bytes / most);
    return html`<rect x=${Math.min(from, x(one.newest_timestamp))} width=${Math.max(2, x(one.newest_timestamp) - from - 1)} y=${60 - height} height=${height}><title>${time(one.newest_timestamp)}: ${bytes(one.stored_bytes)}</title></rect>`;
  })}</svg>`;
}

function Timeline({ topic }) {
  const [where, see] = useState({ partition: 0, offset: "earliest", shown: 10 });
  const plan = useLoad((signal) => get(path`/v1/topics/${topic.name}/partitions/${where.partition}/segments`, { query: { offset: where.offset, max_bytes: 2 ** 30 }, signal }), [where.partition, where.offset]);
  const keep = topic.config["retention.ms"];
  return html`<section class="card" aria-labelledby="timeline"><div class="head"><h2 id="timeline">Segments and commits</h2>
      ${topic.partition_count > 1 && html`<${Field} label="Partition" type="number" min="0" max=${topic.partition_count - 1} value=${where.partition} onChange=${(event) => see({ partition: event.target.value || 0, offset: "earliest", shown: 10 })} />`}</div>
    <${Commits} topic=${topic.name} />
    <p class="muted">${topic.commit.undrained_records > 0 && `${plural(topic.commit.undrained_records, "record")} not drained from journal ${topic.commit.journal} yet.`}
      ${keep < 0 ? " No retention by time." : ` Records leave the log ${duration(keep)} after their timestamps.`}
      ${topic.archive && ` The table keeps ${plural(topic.archive.segments, "segment")} more, ${bytes(topic.archive.size_bytes)}, below the log starts.`}</p>
    <${Loaded} from=${plan}>${({ segments, next_offset: next, high_watermark: end }) => html`
      ${segments.length > 0 && html`<${Strip} segments=${segments} />`}
      <${Table} label="Segments" columns=${SEGMENTS} rows=${segments.slice(-where.shown).reverse()} rowKey=${(row) => row.key} empty="No segments from here on" />
      <div class="actions">${segments.length > where.shown && html`<button onClick=${() => see({ ...where, shown: segments.length })}>Show all ${segments.length}</button>`}
        ${segments.length > 0 && next < end && html`<button onClick=${() => see({ ...where, offset: next })}>Later segments</button>`}</div>`}<//>
  </section>`;
}

function Commits({ topic }) {
  const [before, turn] = useState(undefined);
  const page = useLoad((signal) => get(path`/v1/topics/${topic}/commits`, { query: { before, limit: 10 }, signal }), [before]);
  return html`<${Loaded} from=${page}>${({ commits, next }) => html`
    <${Table} label="Commits" columns=${commits.some((one) => one.marked !== undefined) ? COMMITS : COMMITS.filter((column) => column.name !== "marked")} rows=${commits} rowKey=${(row) => row.version} empty="No older commits" />
    <div class="actions">${before && html`<button onClick=${() => turn(undefined)}>Newest commits</button>`}${next && html`<button onClick=${() => turn(next)}>Older commits</button>`}</div>`}<//>`;
}

export const Storage = ({ topic, mayAlter, mayDelete, onChange }) => html`<${Timeline} topic=${topic} />
  <${Pins} topic=${topic} mayAlter=${mayAlter} onChange=${onChange} />
  <${Clones} topic=${topic} />
  <${Erasures} topic=${topic} mayErase=${mayDelete} />
  <section class="card" aria-labelledby="table"><h2 id="table">Table</h2><dl class="facts">
    <dt>Delta table</dt><dd class="value">${topic.table_uri}</dd>
    <dt>Created</dt><dd>${time(topic.created_at)}, ${ago(topic.created_at)}</dd></dl></section>`;

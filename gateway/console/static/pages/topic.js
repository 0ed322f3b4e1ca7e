import {
  ago, all, bytes, count, DeleteDialog, duration, Field, Figures, Form, get, go, GroupLink, html, link, Loaded, minor,
  money, number, PagedTable, patch, path, perSecond, plural, post, remove, Table, text, time, toast, sql, useChanges, useLoad, useRef,
  useRights, unsorted, useState, withQuery, Escaped,
} from "../parts.js";
import { Pins } from "../components/pins.js";
import { Reading } from "../components/reading.js";
import { SubjectField } from "../components/subject_field.js";
import { cost } from "../cost.js";
import { SUBJECT_OF } from "../schemas.js";
import { CHOICES, DEFAULTS, plain, rates, records, size, UNSET } from "../topic.js";

const SHOWN = 100;
const messages = (topic, query) => withQuery(link`/topics/${topic}/messages`, query);

const READERS = [
  text("group", "Group", { cell: (row) => html`<${GroupLink} of=${row.group} />` }),
  number("member_count", "Members"),
  number("lag", "Lag", { cell: (row) => row.lag === null ? html`<span class="muted">no committed offset</span>` : count(row.lag) }),
];
const partitions = (topic) => [
  number("partition", "Partition", { number: false, cell: (row) => html`<a href=${messages(topic, { partition: row.partition })}>${row.partition}</a>` }),
  number("log_start_offset", "Log start", minor),
  number("high_watermark", "High watermark"),
  number("size_bytes", "Size", { cell: (row) => bytes(row.size_bytes) }),
];
const SEGMENTS = [
  text("start", "Offsets", { ...unsorted, cell: (row) => `${count(row.start_offset)} – ${count(row.end_offset - 1)}` }),
  number("records", "Records", { ...minor, ...unsorted, cell: (row) => count(row.end_offset - row.start_offset) }),
  number("size", "Stored", { ...unsorted, cell: (row) => bytes(row.stored_bytes) }),
  number("newest", "Newest record", { ...unsorted, cell: (row) => time(row.newest_timestamp) }),
  text("url", "Parquet", { ...minor, ...unsorted, cell: (row) => row.url?.startsWith("https://") ? html`<a href=${row.url} rel="noreferrer">download</a>` : html`<span class="value small muted">${row.key.split("/").pop()}</span>` }),
];
const COLUMNS = [
  text("name", "Column", { ...unsorted, cell: (row) => html`<code class="value"><${Escaped} of=${row.name} /></code>` }),
  text("type", "Type", { ...unsorted, cell: (row) => html`<code class="value">${row.type}</code>` }),
];
const COMMITS = [
  number("version", "Version", { number: false }),
  number("at", "Time", { number: false, cell: (row) => time(row.at) }),
  text("operation", "Operation"),
  text("by", "Committed by", minor),
  number("records", "New records"),
  number("marked", "Marked", minor),
  number("files", "Segments", { ...minor, ...unsorted, cell: (row) => `+${row.added} −${row.removed}` }),
];

// The groups that read it, those that don't, and its queues.
async function readers(topic, signal) {
  const [lag, groups, queues] = await Promise.all([
    get("/v1/lag", { query: { prefix: topic, limit: 1 }, signal }), all("/v1/groups", "groups", { most: 1000, signal }), all("/v1/queues", "queues", { most: 1000, signal }),
  ]);
  const mine = lag.topics.find((one) => one.topic === topic) || { groups: [], group_count: 0 };
  const reading = new Set(mine.groups.map((one) => one.group));
  return { ...mine, queues: queues.entries.filter((one) => one.topics.includes(topic)), others: mine.group_count > reading.size ? [] : groups.entries.filter((one) => !reading.has(one.group)) };
}

function Readers({ read: { groups, group_count: total, others, queues } }) {
  return html`<section class="card" aria-labelledby="readers"><h2 id="readers">Consumer groups</h2>
    <${Table} label="Consumer groups" columns=${READERS} rows=${groups} rowKey=${(row) => row.group} sort=${["lag", -1]} empty="Unread: no group reads this topic" />
    ${total > groups.length && html`<p class="muted">and ${plural(total - groups.length, "more group")}</p>`}
    ${queues.length > 0 && html`<p>Queues: ${queues.slice(0, SHOWN).map(({ queue }, i) => html`${i > 0 && ", "}<a class="value" href=${link`/queues/${queue}`}><${Escaped} of=${queue} /></a>`)}</p>`}
    ${others.length > 0 && html`<details><summary>${plural(others.length, "group does", "groups do")} not read it</summary>
      <p>${others.slice(0, SHOWN).map((one, i) => html`${i > 0 && ", "}<${GroupLink} of=${one.group} />`)}${others.length > SHOWN && " …"}</p></details>`}
  </section>`;
}

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

function Settings({ topic, fixed, onChange }) {
  const send = async (values) => {
    const config = {};
    for (const [name, value] of Object.entries(values))
      if (name !== "partitions" && value !== String(topic.config[name] ?? "")) config[name] = value === "" ? null : plain(name, value.trim());
    const change = { config };
    if (values.partitions && Number(values.partitions) !== topic.partition_count) change.partition_count = Number(values.partitions);
    await patch(path`/v1/topics/${topic.name}`, change);
    toast("Settings changed.");
    onChange();
  };
  const names = [...new Set([...Object.keys(DEFAULTS), ...UNSET, ...Object.keys(topic.config)])];
  const hint = (name, value) => `${name.endsWith(".ms") && value > 0 ? `${duration(value)}; ` : name.endsWith("bytes") && value > 0 ? `${bytes(value)}; ` : ""}default ${DEFAULTS[name] ?? ({ "data.on.error": "reject", "data.backfill": "off" })[name] ?? "none"}`;
  const fields = names.map((name) => {
    const value = topic.config[name] ?? "";
    const choices = UNSET.includes(name) && CHOICES[name] ? ["", ...CHOICES[name]] : CHOICES[name];
    return html`<${name in SUBJECT_OF ? SubjectField : Field} key=${name} label=${name} name=${name} value=${value} options=${choices?.map((one) => [one, one || (UNSET.includes(name) ? "default" : "none")])} disabled=${fixed} hint=${hint(name, value)} />`;
  });
  return html`<section class="card" aria-labelledby="settings"><h2 id="settings">Settings</h2>
    <${Form} action="Save" disabled=${fixed} onSend=${send}>
      <div class="fields">${fields}<${Field} label="Partitions" name="partitions" type="number" min=${topic.partition_count} max="10000" value=${topic.partition_count} disabled=${fixed} hint="Can only be increased" /></div>
      <p class="muted">Units: 7d, 1h30m, 1GiB. An empty field resets to the default.</p><//>
  </section>`;
}

function Columns({ topic }) {
  const subjects = Object.keys(SUBJECT_OF).filter((name) => topic.config[name]);
  if (!topic.columns && !subjects.length) return null;
  return html`<section class="card" aria-labelledby="columns"><h2 id="columns">Columns</h2>
    <p>${subjects.map((name, i) => html`${i > 0 && "; "}<code>${SUBJECT_OF[name]}</code> by schema <a class="value" href=${link`/schemas/${topic.config[name]}`}>${topic.config[name]}</a>`)}${subjects.length > 0 && html`. A record that does not fit is ${{ mark: html`stored, and <code>data_error</code> says why`, "dead-letter": html`stored in ${`${topic.name}.dead-letters`}` }[topic.config["data.on.error"]] ?? "refused"}.`}</p>
    <${PagedTable} label="Columns" what="column" columns=${COLUMNS} rows=${topic.columns || []} rowKey=${(row) => row.name} /></section>`;
}

function Dialogs({ asked, topic, onClose, reload }) {
  if (asked === "delete") return html`<${DeleteDialog} what="topic" name=${topic.name} onClose=${onClose} onDelete=${async () => {
    await remove(path`/v1/topics/${topic.name}`, topic.pins && { query: { delete_pins: true } });
    toast(`Topic ${topic.name} is deleted.`);
    go("#/topics");
  }}><p>All of its ${plural(records(topic), "record")} and the committed offsets of groups are deleted.${topic.pins && ` Its ${plural(topic.pins.length, "pinned version")} end with it.`}</p><//>`;
  if (asked === "empty") return html`<${DeleteDialog} what="topic" action="Empty" name=${topic.name} onClose=${onClose} onDelete=${async () => {
    await post(path`/v1/topics/${topic.name}:delete-records`, { before: topic.partitions.map(({ partition }) => ({ partition, offset: -1 })) });
    toast(`Topic ${topic.name} is empty.`);
    reload();
  }}><p>All of its ${plural(records(topic), "record")} are deleted. Settings and offsets stay.</p><//>`;
  return null;
}

export default function Topic({ params }) {
  const [asked, ask] = useState(null);
  const [mayAlter, mayDelete] = useChanges(["Alter", "topic", params.topic], ["Delete", "topic", params.topic]);
  const [mayRead] = useRights(["Read", "topic", params.topic]);
  const [more, showMore] = useState(false);
  const [changes, noteChange] = useState(0);
  const looks = useRef(new Map());
  const load = useLoad(async (signal) => {
    const [topic, read] = await Promise.all([get(path`/v1/topics/${params.topic}`, { signal }), readers(params.topic, signal)]);
    looks.current = rates(looks.current, [topic]);
    return { topic, read, ...looks.current.get(topic.name) };
  }, [params.topic], 5000);
  return html`<div class="page">
    <div class="head"><div><p class="crumbs"><a href="#/topics">Topics</a></p><h1 class="value">${params.topic}</h1></div>
      <div class="actions"><a class="button" href=${messages(params.topic)}>Messages</a>
        ${sql && mayRead && html`<a class="button" href=${withQuery("#/sql", { topic: params.topic })}>SQL</a>`}
        ${mayDelete && load.data && html`<button onClick=${() => ask("empty")}>Empty…</button><button onClick=${() => ask("delete")}>Delete…</button>`}</div></div>
    <${Loaded} from=${load} lines=${12}>${({ topic, read, rate, commits }) => {
      const price = cost(topic, commits);
      return html`
        <${Figures} of=${[
          ["Records", count(records(topic))],
          ["Size", bytes(size(topic))],
          ["Rate", perSecond(rate)],
          ["Commits", html`${topic.commit.mode} <small>${topic.commit.mode === "shared" ? `journal ${topic.commit.journal}, ` : ""}since ${time(topic.commit.since)}: ${topic.commit.reason}</small>`],
          ["Cost per month", html`${money(price.storage + (price.puts || 0))} <small>storage ${money(price.storage)}, ${price.puts === undefined ? "counting commits" : `commits at the current rate ${money(price.puts)}`}${topic.commit.mode === "shared" ? " plus its share of the journal's" : ""}</small>`],
        ]} />
        <${Columns} topic=${topic} />
        <${Readers} read=${read} />
        <${Reading} topic=${topic} />
        <section class="card" aria-labelledby="partitions"><h2 id="partitions">Partitions</h2>
          <${Table} label="Partitions" columns=${partitions(topic.name)} rows=${more ? topic.partitions : topic.partitions.slice(0, SHOWN)} rowKey=${(row) => row.partition} sort=${["partition", 1]} />
          ${!more && topic.partition_count > SHOWN && html`<button onClick=${() => showMore(true)}>Show all ${count(topic.partition_count)}</button>`}</section>
        <${Timeline} topic=${topic} />
        <${Pins} topic=${topic} mayAlter=${mayAlter} onChange=${load.reload} />
        <${Settings} topic=${topic} fixed=${!mayAlter} key=${changes} onChange=${() => load.reload().then(() => noteChange(changes + 1))} />
        <section class="card" aria-labelledby="table"><h2 id="table">Table</h2><dl class="facts">
          <dt>Delta table</dt><dd class="value">${topic.table_uri}</dd>
          <dt>Created</dt><dd>${time(topic.created_at)}, ${ago(topic.created_at)}</dd></dl></section>
        <${Dialogs} asked=${asked} topic=${topic} onClose=${() => ask(null)} reload=${load.reload} />`;
    }}<//>
  </div>`;
}

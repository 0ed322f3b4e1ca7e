import {
  bytes, count, duration, Empty, Field, FormDialog, get, go, GroupLink, html, link, Loaded, minor, number, Pager,
  perSecond, plural, post, readonly, replaceQuery, Spark, Table, text, toast, TopicLink, unsorted, useLoad, useSettled,
  useState,
} from "../parts.js";
import { Bulk } from "../components/bulk.js";
import { SubjectField } from "../components/subject_field.js";

const PAGE = 100;
const SPANS = [["hour", "last hour"], ["day", "last day"]];
const records = (row) => row.activity.reduce((sum, one) => sum + one, 0);

const columns = (span) => [
  text("name", "Topic", { cell: (row) => html`<${TopicLink} of=${row.name} />` }),
  number("partitions", "Partitions", { ...minor, value: (row) => row.partition_count }),
  number("records", "Records"),
  number("size", "Size", { value: (row) => row.size_bytes, cell: (row) => bytes(row.size_bytes) }),
  number("rate", "Rate", { cell: (row) => html`<${Spark} values=${row.activity} label=${`${plural(records(row), "record")} in the ${span}`} /> ${perSecond(row.rate)}` }),
  number("lag", "Lag"),
  text("readers", "Groups", { ...minor, ...unsorted, cell: (row) => html`<${Groups} of=${row} />` }),
  text("retention", "Retention", { ...minor, ...unsorted, cell: (row) => duration(row.retention_ms) }),
  number("segments", "Segments", minor),
  text("schema", "Schema", { ...minor, ...unsorted, cell: (row) => row.schema ? html`<a class="value" href=${link`/schemas/${row.schema}`}>${row.schema}</a>` : "" }),
  text("mode", "Commits", { ...minor, ...unsorted, cell: (row) => html`<span class="tag">${row.mode}</span>` }),
];

function Groups({ of: { groups, group_count: all } }) {
  if (!all) return html`<span class="muted">none</span>`;
  const shown = groups.slice(0, 2);
  return html`${shown.map((one, i) => html`${i > 0 && ", "}<${GroupLink} of=${one.group} />`)}
    ${all > shown.length && html` <span class="muted">and ${count(all - shown.length)} more</span>`}`;
}

function Create({ onClose }) {
  const [typed, type] = useState(false);
  const send = async ({ name, partitions, mode, ...schemas }) => {
    const config = Object.fromEntries(Object.entries({ "commit.mode": mode, ...schemas }).filter(([, value]) => value));
    await post("/v1/topics", { name, partition_count: Number(partitions), config });
    toast(`Topic ${name} is created.`);
    go(link`/topics/${name}`);
  };
  return html`<${FormDialog} title="Create topic" onClose=${onClose} action="Create" onSend=${send}>
    <${Field} label="Name" name="name" required hint="Letters, digits, dot, underscore, hyphen" />
    <${Field} label="Partitions" name="partitions" type="number" min="1" max="10000" value="1" />
    <${Field} label="Commits" name="mode" options=${[["", "default (auto)"], ["own", "own: lowest latency"], ["shared", "shared with other topics: lowest cost"]]} />
    <${Field} label="Typed: check records by a schema" type="checkbox" checked=${typed} onChange=${(event) => type(event.target.checked)} />
    ${typed && html`<${SubjectField} label="Schema of values" name="value.schema" hint="A subject; its members become columns of the topic's table" />
      <${SubjectField} label="Schema of keys" name="key.schema" />
      <${Field} label="A record that does not fit" name="data.on.error" options=${[["", "is refused"], ["mark", "is stored and marked"], ["dead-letter", "goes to the dead letters"]]} />`}
  <//>`;
}

// A column that chooses rows, on all pages: `chosen` is a Set of names.
function choice(rows, chosen, choose) {
  const turn = (names, on) => choose(new Set(on ? [...chosen, ...names] : [...chosen].filter((one) => !names.includes(one))));
  const box = (label, names) => html`<input type="checkbox" aria-label=${label} checked=${names.every((one) => chosen.has(one))} onChange=${(event) => turn(names, event.target.checked)} />`;
  return { name: "chosen", pick: true, label: box("Select all topics of this page", rows.map((row) => row.name)), cell: (row) => box(`Select ${row.name}`, [row.name]) };
}

const Damaged = ({ of }) => of.map((one) => html`<p class="warn" role="alert" key=${one.name}>${one.name} is damaged: ${one.detail}
  ${one.error_code === "CORRUPT_SEGMENT" && html`Restore the object from a backup, or repair the topic without the lost data: <code>tidelog doctor --store STORE --repair ${one.name}</code>`}</p>`);

const Totals = ({ of }) => html`<p class="muted" role="status">${plural(of.topics, "topic")}: ${plural(of.records, "record")}, ${bytes(of.size_bytes)}, ${plural(of.partitions, "partition")}, ${plural(of.segments, "segment")}${of.looked_at < of.topics && ` in the ${count(of.looked_at)} looked at so far`}</p>`;

export default function Topics({ query }) {
  const [creating, create] = useState(false);
  const [chosen, choose] = useState(new Set());
  const search = useSettled(query.search || ""), page = Math.max(0, Number(query.page || 1) - 1) || 0, span = query.span === "day" ? "day" : "hour";
  const { read = "", group = "", sort = "name", order = "asc" } = query;
  const asked = { search, sort, order, skip: page * PAGE, limit: PAGE, activity: span, ...read === "none" ? { read } : read && group ? { read, group } : {} };
  const topics = useLoad((signal) => get("/v1/topics:summary", { query: asked, signal }), [JSON.stringify(asked)], 5000);
  const turn = (more) => replaceQuery({ page: undefined, ...more });
  return html`<div class="page">
    <div class="head"><h1>Topics</h1>${!readonly && html`<button class="primary" onClick=${() => create(true)}>Create topic</button>`}</div>
    <div class="bar" role="search">
      <${Field} class="grow" label="Search" type="search" placeholder="Part of the name" value=${query.search || ""} onInput=${(event) => turn({ search: event.target.value })} />
      <${Field} label="Filter" value=${read} onChange=${(event) => turn({ read: event.target.value })}
        options=${[["", "all"], ["none", "unread: by no group"], ["by", "read by group"], ["not", "not read by group"]]} />
      ${["by", "not"].includes(read) && html`<${Field} label="Group" value=${group} onInput=${(event) => turn({ group: event.target.value })} />`}
      <${Field} label="Activity" value=${span} onChange=${(event) => turn({ span: event.target.value })} options=${SPANS} />
    </div>
    <${Loaded} from=${topics} lines=${12}>${({ topics: rows, damaged, total }) => {
      const empty = search || read
        ? html`<${Empty} title="No matching topics"><p>Change the search or the filter.</p><//>`
        : html`<${Empty} title="No topics yet"><p>Create one here, or with <code>tidelog topic create orders</code>.</p><//>`;
      const shown = columns(SPANS.find(([name]) => name === span)[1]).filter(({ name }) => name !== "schema" || rows.some((row) => row.schema));
      return html`<${Damaged} of=${damaged} /><${Totals} of=${total} />
        ${!readonly && chosen.size > 0 && html`<${Bulk} names=${[...chosen]} onChoose=${(names) => choose(new Set(names))} onDone=${topics.reload} />`}
        <${Table} label="Topics" columns=${readonly ? shown : [choice(rows, chosen, choose), ...shown]} rows=${rows} rowKey=${(row) => row.name} empty=${empty}
          sort=${[sort, order === "desc" ? -1 : 1]} onOrder=${(name, way) => turn({ sort: name, order: way < 0 ? "desc" : undefined })} />
        ${total.topics > PAGE && html`<${Pager} text="" page=${page} pages=${Math.ceil(total.topics / PAGE)} onPage=${(at) => replaceQuery({ page: at ? at + 1 : undefined })} />`}`;
    }}<//>
    ${creating && html`<${Create} onClose=${() => create(false)} />`}
  </div>`;
}

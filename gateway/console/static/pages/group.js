import {
  count, DeleteDialog, duration, Empty, Escaped, Figures, get, go, html, link, Loaded, minor, number, PagedTable, path, Plot, remove,
  Table, text, toast, useChanges, useLoad, useRef, useRights, useState, withQuery,
} from "../parts.js";
import { ResetDialog } from "./group_reset.js";
import { State } from "./groups.js";

const EVERY_MS = 2000;
const KEPT = 900; // half an hour
const DRAWN = 3, STEP_MS = 900_000, PAST_AGAIN_MS = 60_000;
const ALL = "all partitions";

const keyOf = (row) => `${row.topic}/${row.partition}`;

// What was seen since the page was opened: times, and for a key its lag at each.
function useHistory(lag, rows, drawn) {
  const { current: kept } = useRef({ times: [], seen: [], last: null });
  if (lag !== kept.last) {
    kept.last = lag;
    kept.times.push(Date.now());
    kept.seen.push(Object.fromEntries([[ALL, lag.unread], ...rows.filter((row) => drawn.includes(keyOf(row))).map((row) => [keyOf(row), row.unread])]));
    if (kept.times.length > KEPT) { kept.times.shift(); kept.seen.shift(); }
  }
  return { times: kept.times, series: [ALL, ...drawn].map((label) => ({ label, values: kept.seen.map((one) => one[label] ?? null) })) };
}

function Lag({ lag, members }) {
  const rows = lag.topics.flatMap(({ topic, partitions }) => partitions.map((one) => ({ topic, ...one })));
  const [drawn, draw] = useState(() => rows.length > 1 ? [...rows].sort((a, b) => b.unread - a.unread).slice(0, DRAWN).map(keyOf) : []);
  const { times, series } = useHistory(lag, rows, drawn);
  const readers = new Map(members.flatMap((one) => one.assignment.map((each) => [keyOf(each), one.client_id || one.member_id])));
  const toggle = (key) => draw(drawn.includes(key) ? drawn.filter((one) => one !== key) : [...drawn, key].slice(-DRAWN));
  const columns = [
    text("partition", "Partition", { value: keyOf, cell: (row) => html`<a class="value" href=${withQuery(link`/topics/${row.topic}/messages`, { partition: row.partition, from: "offset", offset: row.committed_offset })}>${keyOf(row)}</a>` }),
    number("unread", "Lag"),
    number("unread_ms", "Time behind", { cell: (row) => duration(row.unread_ms) }),
    number("committed_offset", "Next offset"),
    number("high_watermark", "End", minor),
    text("member", "Member", { ...minor, value: (row) => readers.get(keyOf(row)) }),
    text("plot", "Plot", { value: null, cell: (row) => html`<input type="checkbox" aria-label=${`Plot ${keyOf(row)}`} checked=${drawn.includes(keyOf(row))} onChange=${() => toggle(keyOf(row))} />` }),
  ];
  if (!rows.length) return html`<${Empty} title="No partitions"><p>The group has no committed offsets, and no existing topic is subscribed.</p><//>`;
  return html`<section class="card"><${Plot} title="Lag while this page is open" times=${times} series=${series} format=${count} /></section>
    <h2>Partitions</h2>
    <${PagedTable} label="Lag by partition" what="partition" columns=${columns} rows=${rows} rowKey=${keyOf} />`;
}

// The last day by the history of the gateways' metrics, which has the groups that are furthest behind.
function Past({ group }) {
  const { data } = useLoad((signal) => get("/v1/monitoring/history", { query: { series: "lag_records", by: "group", step: STEP_MS }, signal }), [group], PAST_AGAIN_MS);
  const series = (data?.series || []).filter((one) => one.group === group).slice(0, DRAWN).map((one) => ({ label: one.topic, values: one.values }));
  const written = Math.max(0, ...series.map((one) => one.values.findLastIndex((value) => value !== null) + 1));
  if (!written) return null;
  return html`<section class="card"><${Plot} title="Lag in the last 24 hours" times=${Array.from({ length: written }, (_, i) => data.since + i * STEP_MS)}
    series=${series.map((one) => ({ ...one, values: one.values.slice(0, written) }))} format=${count} /></section>`;
}

const ago = (at) => at === null ? "–" : `${duration(Math.max(0, Date.now() - at))} ago`;
const MEMBERS = [
  text("client_id", "Client", { value: (row) => row.client_id ?? row.member_id }),
  text("member_id", "Member", minor),
  text("instance_id", "Instance", minor),
  text("topics", "Topics", { ...minor, value: (row) => row.topics.join(", ").slice(0, 200) }),
  text("assignment", "Assignment", { value: (row) => row.assignment.map(keyOf).join(", ").slice(0, 200) }),
  number("partitions", "Partitions", { value: (row) => row.assignment.length }),
  number("heard_at", "Last seen", { cell: (row) => ago(row.heard_at) }),
  number("committed_at", "Committed", { cell: (row) => ago(row.committed_at) }),
];

export default function ({ params: { group: name } }) {
  const [asked, ask] = useState(null);
  const [mayReset, mayDelete] = useChanges(["Alter", "group", name], ["Delete", "group", name]);
  const [mayLook] = useRights(["Describe", "cluster", "cluster"]);
  const route = path`/v1/groups/${name}`;
  const found = useLoad((signal) => Promise.all([get(route, { query: { include: "activity" }, signal }), get(`${route}/lag`, { query: { include: "unread" }, signal })]), [name], EVERY_MS);
  const [group, lag] = found.data || [];
  const drop = async () => {
    await remove(route);
    toast(`Group ${name} is deleted.`);
    go("/groups");
  };
  const close = () => ask(null);
  return html`<div class="page">
    <div class="head">
      <div><p class="crumbs"><a href="#/groups">Groups</a></p><h1 class="value"><${Escaped} of=${name} /></h1></div>
      ${group && html`<div class="actions">
        ${mayReset && html`<button onClick=${() => ask("reset")}>Reset offsets</button>`}
        ${mayDelete && html`<button onClick=${() => ask("delete")}>Delete</button>`}</div>`}
    </div>
    <${Loaded} from=${found} lines=${8}>${() => html`
      <${Figures} of=${[
        ["State", html`<${State} of=${group.state} />`],
        ["Lag", html`${count(lag.unread)}<small>records</small>`],
        ["Members", html`${count(group.members.length)}<small>${group.assignor || "no assignor"}</small>`],
        ["Generation", count(group.generation)],
      ]} />
      ${mayLook && html`<${Past} group=${name} />`}
      <${Lag} lag=${lag} members=${group.members} />
      <h2>Members</h2>
      <${Table} label="Members" columns=${MEMBERS} rows=${group.members} rowKey=${(row) => row.member_id} empty="No live members" />`}<//>
    ${asked === "reset" && html`<${ResetDialog} group=${name} lag=${lag} members=${group.members.length} onClose=${close} onDone=${found.reload} />`}
    ${asked === "delete" && html`<${DeleteDialog} what="group" name=${name} onClose=${close} onDelete=${drop}>
      <p>Its committed offsets are deleted. Stop live members first.</p><//>`}
  </div>`;
}

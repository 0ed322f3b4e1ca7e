import {
  all, bytes, count, DeleteDialog, Escaped, Figures, get, go, GroupLink, html, link, Loaded, minor, money, number, PagedTable, path,
  perSecond, plural, post, remove, Table, text, time, toast, sql, useChanges, useLoad, useRef, useRights, unsorted, useState, withQuery,
} from "../parts.js";
import { Reading } from "../components/reading.js";
import { cost } from "../cost.js";
import { SUBJECT_OF } from "../schemas.js";
import { rates, records, size } from "../topic.js";
import { Settings } from "./topic_settings.js";
import { Storage } from "./topic_storage.js";

const TABS = { "": "Overview", read: "Clients", storage: "Storage", settings: "Settings" };
const SHOWN = 100;
const messages = (topic, query) => withQuery(link`/topics/${topic}/messages`, query);

const READERS = [
  text("group", "Group", { cell: (row) => html`<${GroupLink} of=${row.group} />` }),
  number("member_count", "Members"),
  number("lag", "Lag"),
];
const partitions = (topic) => [
  number("partition", "Partition", { number: false, cell: (row) => html`<a href=${messages(topic, { partition: row.partition })}>${row.partition}</a>` }),
  number("log_start_offset", "Log start", minor),
  number("high_watermark", "High watermark"),
  number("size_bytes", "Size", { cell: (row) => bytes(row.size_bytes) }),
];
const COLUMNS = [
  text("name", "Column", { ...unsorted, cell: (row) => html`<code class="value"><${Escaped} of=${row.name} /></code>` }),
  text("type", "Type", { ...unsorted, cell: (row) => html`<code class="value">${row.type}</code>` }),
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

function Numbers({ topic, rate, commits }) {
  const price = cost(topic, commits);
  return html`<${Figures} of=${[
    ["Records", count(records(topic))],
    ["Size", bytes(size(topic))],
    ["Rate", perSecond(rate)],
    ["Commits", html`${topic.commit.mode} <small>${topic.commit.mode === "shared" ? `journal ${topic.commit.journal}, ` : ""}since ${time(topic.commit.since)}: ${topic.commit.reason}</small>`],
    ["Cost per month", html`${money(price.storage + (price.puts || 0))} <small>storage ${money(price.storage)}, ${price.puts === undefined ? "counting commits" : `commits at the current rate ${money(price.puts)}`}${topic.commit.mode === "shared" ? " plus its share of the journal's" : ""}</small>`],
  ]} />`;
}

function Partitions({ topic }) {
  const [more, showMore] = useState(false);
  return html`<section class="card" aria-labelledby="partitions"><h2 id="partitions">Partitions</h2>
    <${Table} label="Partitions" columns=${partitions(topic.name)} rows=${more ? topic.partitions : topic.partitions.slice(0, SHOWN)} rowKey=${(row) => row.partition} sort=${["partition", 1]} />
    ${!more && topic.partition_count > SHOWN && html`<button onClick=${() => showMore(true)}>Show all ${count(topic.partition_count)}</button>`}</section>`;
}

export default function Topic({ params, query }) {
  const tab = TABS[query.tab] ? query.tab : "";
  const [asked, ask] = useState(null);
  const [mayAlter, mayDelete] = useChanges(["Alter", "topic", params.topic], ["Delete", "topic", params.topic]);
  const [mayRead] = useRights(["Read", "topic", params.topic]);
  const looks = useRef(new Map());
  const load = useLoad(async (signal) => {
    const [topic, read] = await Promise.all([get(path`/v1/topics/${params.topic}`, { signal }), readers(params.topic, signal)]);
    looks.current = rates(looks.current, [topic]);
    return { topic, read, ...looks.current.get(topic.name) };
  }, [params.topic], 5000);
  return html`<div class="page">
    <div class="head"><div><p class="crumbs"><a href="#/topics">Topics</a></p><h1 class="value">${params.topic}</h1></div>
      <div class="actions">${sql && mayRead && html`<a class="button" href=${withQuery("#/sql", { topic: params.topic })}>SQL</a>`}
        ${mayDelete && load.data && html`<button onClick=${() => ask("empty")}>Empty…</button><button onClick=${() => ask("delete")}>Delete…</button>`}</div></div>
    <nav class="tabs" aria-label="Topic">${Object.entries(TABS).map(([name, label]) => html`<a key=${name} href=${withQuery(link`/topics/${params.topic}`, { tab: name })} aria-current=${name === tab ? "page" : undefined}>${label}</a>`)}
      <a href=${messages(params.topic)}>Messages</a></nav>
    <${Loaded} from=${load} lines=${12}>${({ topic, read, rate, commits }) => {
      const changed = { topic, mayAlter, mayDelete, onChange: load.reload };
      return html`
        ${tab === "" && html`<${Numbers} topic=${topic} rate=${rate} commits=${commits} /><${Columns} topic=${topic} /><${Readers} read=${read} /><${Partitions} topic=${topic} />`}
        ${tab === "read" && html`<${Reading} topic=${topic} />`}
        ${tab === "storage" && html`<${Storage} ...${changed} />`}
        ${tab === "settings" && html`<${Settings} ...${changed} />`}
        <${Dialogs} asked=${asked} topic=${topic} onClose=${() => ask(null)} reload=${load.reload} />`;
    }}<//>
  </div>`;
}

import {
  all, bytes, count, Empty, Field, FormDialog, get, go, GroupLink, html, link, Loaded, minor, number, Pager,
  perSecond, plural, post, readonly, replaceQuery, Table, text, toast, TopicLink, useLoad, useRef, useSettled,
  useState,
} from "../parts.js";
import { SubjectField } from "../components/subject_field.js";
import { rates, records, size } from "../topic.js";

const PAGE = 100, LOOKED = 1000;
const schemaOf = (row) => row.config["value.schema"] || row.config["key.schema"];
const lagOf = (readers) => readers?.groups.reduce((sum, one) => sum + (one.lag || 0), 0);

const COLUMNS = [
  text("name", "Topic", { cell: (row) => html`<${TopicLink} of=${row.name} />` }),
  text("mode", "Commits", { ...minor, value: (row) => row.commit.mode, cell: (row) => html`<span class="tag">${row.commit.mode}</span>` }),
  number("partition_count", "Partitions", minor),
  number("records", "Records", { value: records }),
  text("schema", "Schema", { ...minor, value: (row) => schemaOf(row) || "", cell: (row) => schemaOf(row) ? html`<a class="value" href=${link`/schemas/${schemaOf(row)}`}>${schemaOf(row)}</a>` : "" }),
  number("size", "Size", { value: size, cell: (row) => bytes(size(row)) }),
  number("rate", "Rate", { cell: (row) => perSecond(row.rate) }),
  number("lag", "Lag", { value: (row) => lagOf(row.readers) }),
  text("readers", "Groups", { ...minor, value: (row) => row.readers?.group_count || 0, cell: (row) => html`<${Groups} readers=${row.readers} />` }),
];

function Groups({ readers }) {
  if (!readers) return html`<span class="muted">none</span>`;
  const [first, second, ...others] = readers.groups;
  const more = readers.group_count - 2;
  return html`${[first, second].filter(Boolean).map((one, i) => html`${i > 0 && ", "}<${GroupLink} of=${one.group} />`)}
    ${others.length > 0 && html` <span class="muted">and ${count(more)} more</span>`}`;
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

// `read`: "" all; "none": no group reads it; "by" and "not": a group does, or does not. Then page after page is looked at.
function wanted(row, { read, group }) {
  if (read === "none") return !row.readers;
  if (!group || !read) return true;
  return Boolean(row.readers?.groups.some((one) => one.group === group)) === (read === "by");
}

export default function Topics({ query }) {
  const [creating, create] = useState(false);
  const [back, setBack] = useState([]);
  const looks = useRef(new Map());
  const search = useSettled(query.search || "");
  const chosen = Boolean(query.read && (query.read === "none" || query.group));
  const topics = useLoad(async (signal) => {
    const limit = chosen ? LOOKED : PAGE;
    const found = { rows: [], damaged: [], next: query.after };
    do {
      const asked = { search, after: found.next };
      const [page, lag] = await Promise.all([
        get("/v1/topics", { query: { ...asked, limit, max_age_ms: 10000 }, signal }), all("/v1/lag", "topics", { query: asked, most: limit, signal }),
      ]);
      looks.current = rates(looks.current, page.topics);
      const readers = new Map(lag.entries.map((one) => [one.topic, one]));
      const rows = page.topics.map((one) => ({ ...one, rate: looks.current.get(one.name).rate, readers: readers.get(one.name) }));
      found.damaged.push(...(page.damaged || []));
      found.rows.push(...rows.filter((row) => wanted(row, query)));
      found.next = page.next;
    } while (chosen && found.next && found.rows.length < PAGE);
    return found;
  }, [search, query.after, query.read, query.group], chosen ? 0 : 5000);
  const turn = (after, before) => { setBack(before); replaceQuery({ after }); };
  return html`<div class="page">
    <div class="head"><h1>Topics</h1>${!readonly && html`<button class="primary" onClick=${() => create(true)}>Create topic</button>`}</div>
    <div class="bar" role="search">
      <${Field} class="grow" label="Search" type="search" placeholder="Part of the name" value=${query.search || ""}
        onInput=${(event) => { setBack([]); replaceQuery({ search: event.target.value, after: undefined }); }} />
      <${Field} label="Filter" value=${query.read || ""} onChange=${(event) => replaceQuery({ read: event.target.value })}
        options=${[["", "all"], ["none", "unread: by no group"], ["by", "read by group"], ["not", "not read by group"]]} />
      ${["by", "not"].includes(query.read) && html`<${Field} label="Group" value=${query.group || ""} onInput=${(event) => replaceQuery({ group: event.target.value })} />`}
    </div>
    <${Loaded} from=${topics} lines=${12}>${({ rows, damaged, next }) => {
      const empty = search || query.read || query.after
        ? html`<${Empty} title="No matching topics"><p>Change the search or the filter.</p><//>`
        : html`<${Empty} title="No topics yet"><p>Create one here, or with <code>tidelog topic create orders</code>.</p><//>`;
      return html`
        ${damaged.map((one) => html`<p class="warn" role="alert">${one.name} is damaged: ${one.detail}
          ${one.error_code === "CORRUPT_SEGMENT" && html`Restore the object from a backup, or repair the topic without the lost data: <code>tidelog doctor --store STORE --repair ${one.name}</code>`}</p>`)}
        <${Table} label="Topics" columns=${rows.some(schemaOf) ? COLUMNS : COLUMNS.filter((column) => column.name !== "schema")} rows=${rows} rowKey=${(row) => row.name} sort=${["name", 1]} empty=${empty} />
        <${Pager} text=${`${plural(rows.length, "topic")} on this page`}
          onBack=${query.after && (() => turn(back[back.length - 1], back.slice(0, -1)))}
          onNext=${next && (() => turn(next, [...back, query.after]))} />`;
    }}<//>
    ${creating && html`<${Create} onClose=${() => create(false)} />`}
  </div>`;
}

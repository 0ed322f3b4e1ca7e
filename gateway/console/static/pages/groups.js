import {
  all, count, duration, Empty, Field, get, GroupLink, html, Loaded, minor, number, PagedTable, path, replaceQuery, text, TopicLink,
  useEffect, useLoad, useRef, useState,
} from "../parts.js";

const LOOKED = 100, TOPICS_MAX = 10000, TOPICS_SHOWN = 2;
const AGAIN_MS = 5000, READERS_AGAIN_MS = 30_000, LOOKS = 12, LOOKS_STALLED = 4;
const STATES = { Stable: "ok", Reconciling: "warn" };

export const State = ({ of }) => html`<span class=${`tag ${STATES[of] || ""}`}>${of}</span>`;

// {topics, lag} of each group that reads a topic, as the gateway knew them a few seconds ago.
async function readers(signal) {
  const read = new Map();
  for (const { topic, groups } of (await all("/v1/lag", "topics", { most: TOPICS_MAX, signal })).entries) for (const { group, lag } of groups) {
    const known = read.get(group) || { topics: [], lag: 0 };
    known.topics.push(topic);
    known.lag += lag;
    read.set(group, known);
  }
  return read;
}

// A lag at this moment. `ms`: time of the partition that is furthest behind; `skew`: the largest lag of a partition, as a multiple of the mean.
function judged(lag) {
  const each = lag.topics.flatMap((one) => one.partitions), most = Math.max(0, ...each.map((one) => one.unread));
  return { at: performance.now(), total: lag.unread, ms: Math.max(0, ...each.map((one) => one.unread_ms)), skew: lag.unread ? most * each.length / lag.unread : null };
}

// Lags of these groups, one group after the other: each costs the gateway a look at all partitions of its topics.
function useLags(names) {
  const [lags, show] = useState({});
  const wanted = useRef();
  wanted.current = names;
  useEffect(() => {
    const over = new AbortController();
    (async () => {
      for (;; await new Promise((wake) => setTimeout(wake, AGAIN_MS))) for (const name of wanted.current) {
        const now = await get(path`/v1/groups/${name}/lag`, { query: { include: "unread" }, signal: over.signal }).then(judged, () => null);
        if (over.signal.aborted) return;
        show((old) => ({ ...old, [name]: now && gained(old[name], now) }));
      }
    })();
    return () => over.abort();
  }, [[...names].sort().join("\n")]);
  return lags;
}

// `gain`: records a second by which the lag has shrunk over the last looks; below zero it grows.
function gained(before, now) {
  const looks = [...before?.looks || [], now].slice(-LOOKS), [first] = looks;
  return { ...now, looks, gain: now.at > first.at ? (first.total - now.total) * 1000 / (now.at - first.at) : undefined };
}

function Topics({ of }) {
  if (!of) return "–";
  return html`${of.slice(0, TOPICS_SHOWN).map((one, i) => html`${i > 0 && ", "}<${TopicLink} of=${one} />`)}${of.length > TOPICS_SHOWN && html` <span class="muted">and ${count(of.length - TOPICS_SHOWN)} more</span>`}`;
}

// Time until the group will have caught up, at the present rate.
function CatchUp({ of }) {
  if (!of?.total || of.gain === undefined || of.gain === 0 && of.looks.length < LOOKS_STALLED) return "–";
  return of.gain > 0 ? duration(of.total / of.gain * 1000) : html`<span class="warn">${of.gain < 0 ? "falls behind" : "stalled"}</span>`;
}

function Groups({ from: { entries, more }, read, search }) {
  const rows = entries.filter(({ group }) => group.toLowerCase().includes(search.toLowerCase())).map((one) => ({ ...one, ...read?.get(one.group) }));
  const lags = useLags([...rows].sort((a, b) => (b.lag ?? -1) - (a.lag ?? -1)).slice(0, LOOKED).map(({ group }) => group));
  const lagOf = (row) => lags[row.group]?.total ?? row.lag;
  const columns = [
    text("group", "Group", { cell: (row) => html`<${GroupLink} of=${row.group} />` }),
    number("lag", "Lag", { value: lagOf, cell: (row) => count(lagOf(row)) }),
    text("state", "State", { cell: (row) => html`<${State} of=${row.state} />` }),
    number("behind", "Time behind", { value: (row) => lags[row.group]?.ms, cell: (row) => duration(lags[row.group]?.ms) }),
    text("catch", "Caught up in", { ...minor, value: null, cell: (row) => html`<${CatchUp} of=${lags[row.group]} />` }),
    number("skew", "Skew", { ...minor, value: (row) => lags[row.group]?.skew, cell: (row) => lags[row.group]?.skew ? html`<span title="The largest lag of a partition, as a multiple of the mean">${lags[row.group].skew.toFixed(1)}×</span>` : "–" }),
    text("topics", "Topics", { ...minor, value: (row) => row.topics?.length, cell: (row) => html`<${Topics} of=${row.topics} />` }),
    number("member_count", "Members", minor),
  ];
  if (!entries.length)
    return html`<${Empty} title="No groups yet"><p>The first consumer that joins a group creates it:</p><p><code>tidelog consume TOPIC --group NAME</code></p><//>`;
  return html`<${PagedTable} label="Groups" what="group" note=${more ? ", and more not listed" : ""} columns=${columns} rows=${rows}
    rowKey=${(row) => row.group} sort=${["lag", -1]} empty=${`No group has “${search}” in its name`} />`;
}

export default function ({ query: { search = "" } }) {
  const groups = useLoad((signal) => all("/v1/groups", "groups", { signal }), [], AGAIN_MS);
  const read = useLoad(readers, [], READERS_AGAIN_MS);
  return html`<div class="page">
    <div class="head"><h1>Groups</h1></div>
    <${Field} label="Search" type="search" value=${search} onInput=${(event) => replaceQuery({ search: event.target.value })} />
    <${Loaded} from=${groups} lines=${6}>${(found) => html`<${Groups} from=${found} read=${read.data} search=${search} />`}<//>
  </div>`;
}

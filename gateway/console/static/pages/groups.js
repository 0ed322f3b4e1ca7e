import {
  all, count, Empty, Field, get, GroupLink, html, Loaded, minor, number, PagedTable, path, replaceQuery, text,
  useEffect, useLoad, useState,
} from "../parts.js";

const LAGS = 100;
const AGAIN_MS = 5000;
const STATES = { Stable: "ok", Reconciling: "warn" };

export const State = ({ of }) => html`<span class=${`tag ${STATES[of] || ""}`}>${of}</span>`;

// One group after the other: each costs the gateway a look at all partitions of its topics.
function useLags(names) {
  const [lags, show] = useState({});
  useEffect(() => {
    const over = new AbortController();
    (async () => {
      for (;; await new Promise((wake) => setTimeout(wake, AGAIN_MS))) for (const name of names) {
        const total = await get(path`/v1/groups/${name}/lag`, { signal: over.signal }).then((lag) => lag.total, () => null);
        if (over.signal.aborted) return;
        show((old) => ({ ...old, [name]: total }));
      }
    })();
    return () => over.abort();
  }, [names.join("\n")]);
  return lags;
}

function Groups({ from: { entries, more }, search }) {
  const rows = entries.filter(({ group }) => group.toLowerCase().includes(search.toLowerCase()));
  const lags = useLags(rows.slice(0, LAGS).map(({ group }) => group));
  const columns = [
    text("group", "Group", { cell: (row) => html`<${GroupLink} of=${row.group} />` }),
    number("lag", "Lag", { value: (row) => lags[row.group], cell: (row) => count(lags[row.group]) }),
    text("state", "State", { cell: (row) => html`<${State} of=${row.state} />` }),
    number("member_count", "Members", minor),
    number("generation", "Generation", minor),
  ];
  if (!entries.length)
    return html`<${Empty} title="No groups yet"><p>The first consumer that joins a group creates it:</p><p><code>tidelog consume TOPIC --group NAME</code></p><//>`;
  return html`<${PagedTable} label="Groups" what="group" note=${more ? ", and more not listed" : ""} columns=${columns} rows=${rows}
    rowKey=${(row) => row.group} sort=${["group", 1]} empty=${`No group has “${search}” in its name`} />`;
}

export default function ({ query: { search = "" } }) {
  const groups = useLoad((signal) => all("/v1/groups", "groups", { signal }), [], 5000);
  return html`<div class="page">
    <div class="head"><h1>Groups</h1></div>
    <${Field} label="Search" type="search" value=${search} onInput=${(event) => replaceQuery({ search: event.target.value })} />
    <${Loaded} from=${groups} lines=${6}>${(found) => html`<${Groups} from=${found} search=${search} />`}<//>
  </div>`;
}

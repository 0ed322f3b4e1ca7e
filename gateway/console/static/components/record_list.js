// Records in a table, with members of their JSON as columns, and the one that is open beside it.

import { html, useState } from "../vendored/preact.js";
import { timeExact } from "../format.js";
import { fieldOf, objectOf } from "../record.js";
import { replaceQuery } from "../router.js";
import { Blank, Member, minor, Null, text, unsorted } from "./columns.js";
import { Escaped, escaped } from "./escaped.js";
import { Field } from "./form.js";
import { RecordDrawer } from "./record_view.js";
import { Table } from "./table.js";

const FIELDS_MAX = 40, CELL_MAX = 160;
const open = (place) => replaceQuery({ open: place });
const placeOf = (row) => `${row.partition}:${row.offset}`;

const COLUMNS = [
  text("offset", "Offset", { ...unsorted, cell: (row) => html`<button class="sort row-link" onClick=${() => open(placeOf(row))}>${placeOf(row)}</button>` }),
  text("time", "Time", { ...minor, ...unsorted, cell: (row) => html`<span class="nowrap">${timeExact(row.timestamp)}</span>` }),
  text("key", "Key", { ...unsorted, cell: (row) => html`<span class="value cut short"><${Member} of=${row} name="key" most=${60} /></span>` }),
];
const VALUE = text("value", "Value", { ...unsorted, cell: (row) => html`<span class="value cut rest"><${Member} of=${row} /></span>` });

function FieldCell({ of, name }) {
  const shown = fieldOf(objectOf(of), name);
  if (shown === undefined) return html`<span class="muted">–</span>`;
  return shown === "null" ? html`<${Null} />` : shown === "" ? html`<${Blank} />` : html`<${Escaped} of=${shown.slice(0, CELL_MAX)} />`;
}
const fieldColumn = (name) => text(`field ${name}`, html`<${Escaped} of=${name} />`, { ...unsorted, short: escaped(name), cell: (row) => html`<span class="value cut short"><${FieldCell} of=${row} name=${name} /></span>` });

// Which members of the values are columns. `chosen`: their names.
function Choice({ rows, chosen }) {
  const [typed, type] = useState("");
  const names = new Set(chosen);
  for (const row of rows.slice(0, 50)) for (const name of Object.keys(objectOf(row) || {})) if (names.size < FIELDS_MAX) names.add(name);
  if (!names.size) return null;
  const set = (all) => replaceQuery({ columns: all.length ? JSON.stringify(all) : undefined });
  const turn = (name) => set(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  return html`<details><summary>Columns${chosen.length > 0 && `: ${chosen.length}`}</summary><div class="bar choice">
    ${[...names].map((name) => html`<${Field} key=${name} label=${html`<${Escaped} of=${name} />`} type="checkbox" checked=${chosen.includes(name)} onChange=${() => turn(name)} />`)}
    <${Field} label="Another member" placeholder="customer.name" value=${typed} onInput=${(event) => type(event.target.value)} onChange=${() => { if (typed && !chosen.includes(typed)) turn(typed); type(""); }} />
  </div></details>`;
}

const namesIn = (columns) => { try { return JSON.parse(columns).filter((one) => typeof one === "string").slice(0, FIELDS_MAX); } catch { return []; } };

// `query`: the page's; `open` and `columns` in it are this list's. `children`: what stands below the table.
export function RecordList({ topic, query, rows, label, empty, children }) {
  const chosen = namesIn(query.columns || "[]");
  const [partition, offset] = (query.open || "").split(":").map(Number);
  const at = rows.findIndex((row) => row.partition === partition && row.offset === offset);
  const to = (row) => row && (() => open(placeOf(row)));
  return html`<${Choice} rows=${rows} chosen=${chosen} />
    <div class=${query.open ? "beside" : undefined}><div class="page">
      <${Table} label=${label} columns=${[...COLUMNS, ...chosen.map(fieldColumn), ...(chosen.length ? [] : [VALUE])]} rows=${rows} rowKey=${placeOf} empty=${empty} marked=${query.open} onRow=${(row) => open(placeOf(row))} />
      ${children}</div>
    ${query.open && Number.isInteger(offset) && html`<${RecordDrawer} topic=${topic} opened=${{ partition, offset }} onClose=${() => open(undefined)}
      onBefore=${at > 0 && to(rows[at - 1])} onAfter=${at >= 0 && to(rows[at + 1])} />`}</div>`;
}

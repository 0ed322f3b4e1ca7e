import { html, useState } from "../vendored/preact.js";
import { Empty } from "./states.js";

// `columns`: [{name, label, cell(row), value(row)?, number?, minor?}]: `value` makes it sortable, `number` sets it right, `minor`
// hides it on a screen that is narrow, but wide enough for a table; `short`: the label where it has to be text; `pick`: a column
// before the head. `onOrder(name, way)`: who sorts, in place of this table, which then only shows `sort`. `onRow(row)`: what a click on the row does; `marked`: the key of the row that is open; `part`: [from, to] of the sorted rows, and `onSort`: after a change of the order. The first column is the row's head. `rowKey(row)`. `sort`: the first order, ["name", 1 or -1].
export function Table({ label, columns, rows, rowKey, sort, empty = "No entries", onRow, marked, part, onSort, onOrder }) {
  const [own, setOrder] = useState(sort || null);
  const order = onOrder ? sort : own, head = columns[0].pick ? 1 : 0;
  const by = !onOrder && order && columns.find((column) => column.name === order[0]);
  const all = by ? [...rows].sort((a, b) => order[1] * compared(by.value(a), by.value(b))) : rows, shown = part ? all.slice(...part) : all;
  const turn = (column) => {
    const next = [column.name, order?.[0] === column.name ? -order[1] : column.number ? -1 : 1];
    onOrder ? onOrder(...next) : setOrder(next);
    onSort?.();
  };
  if (!rows.length) return typeof empty === "string" ? html`<${Empty} title=${empty} />` : empty;
  return html`<div class="table" role="region" aria-label=${label} tabindex="0">
    <table role="table">
      <thead role="rowgroup"><tr role="row">${columns.map((column) => html`<th scope="col" role="columnheader" key=${column.name} class=${look(column)} aria-sort=${sorted(order, column)}>
        ${column.value ? html`<button class="sort" onClick=${() => turn(column)}>${column.label}<span aria-hidden="true">${arrow(order, column)}</span></button>` : column.label}
      </th>`)}</tr></thead>
      <tbody role="rowgroup" onKeyDown=${walk}>${shown.map((row) => html`<tr role="row" key=${rowKey(row)} class=${rowKey(row) === marked ? "marked" : onRow ? "opens" : undefined} onClick=${onRow && pressed(onRow, row)}>
        ${columns.map((column, i) => i === head
          ? html`<th scope="row" role="rowheader" key=${column.name} class=${look(column)}>${column.cell(row)}</th>`
          : html`<td role="cell" key=${column.name} class=${look(column)} data-label=${column.pick ? undefined : column.short ?? column.label}>${column.cell(row)}</td>`)}
      </tr>`)}</tbody>
    </table>
  </div>`;
}

// Back and on through pages; with `pages`, their number, also to any of them by `onPage(page)`, where the first is 0.
export const Pager = ({ text, page, pages, onPage, onBack = page > 0 && (() => onPage(page - 1)), onNext = page + 1 < pages && (() => onPage(page + 1)), children }) => html`<nav class="pager" aria-label="Pages">
  <span class="muted">${text}</span>${children}
  <button disabled=${!onBack} onClick=${onBack}>Back</button>
  ${pages && html`<label>Page <input type="number" min="1" max=${pages} value=${page + 1} onChange=${(event) => onPage(Math.min(pages, Math.max(1, Number(event.target.value) || 1)) - 1)} /> of ${pages}</label>`}
  <button disabled=${!onNext} onClick=${onNext}>Next</button>
</nav>`;

// A click beside a row's links and buttons, unless text was being selected.
const pressed = (onRow, row) => (event) => event.target.closest("a, button, input") || String(getSelection()) || onRow(row);
const look = (column) => ["number", "minor", "pick"].filter((one) => column[one]).join(" ");
const sorted = (order, column) => column.value ? (order?.[0] === column.name ? (order[1] > 0 ? "ascending" : "descending") : "none") : undefined;
const arrow = (order, column) => order?.[0] === column.name ? (order[1] > 0 ? " ↑" : " ↓") : "";

function compared(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}

function walk(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const row = step && !event.target.matches("input, select, textarea") && event.target.closest("tr")?.[step];
  const target = row?.querySelector("a, button");
  if (target) { event.preventDefault(); target.focus(); }
}

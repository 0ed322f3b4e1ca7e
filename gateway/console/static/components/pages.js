// A long list in parts, as it is in the browser already.

import { html, useState } from "../vendored/preact.js";
import { plural } from "../format.js";
import { Pager, Table } from "./table.js";

// As Table, with `what`: the name of one row. `note` stands beside their number.
export function PagedTable({ rows, what, note = "", each = 100, ...table }) {
  const [turned, turn] = useState(0);
  const last = Math.max(0, Math.ceil(rows.length / each) - 1), page = Math.min(turned, last);
  const told = plural(rows.length, what) + note;
  return html`<${Table} ...${table} rows=${rows} part=${[page * each, (page + 1) * each]} onSort=${() => turn(0)} />
    ${last > 0 ? html`<${Pager} text=${told} page=${page} pages=${last + 1} onPage=${turn} />`
      : rows.length > 0 && html`<p class="muted small">${told}</p>`}`;
}

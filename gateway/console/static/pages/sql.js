import { bytes, count, Field, Form, html, Null, PagedTable, plural, request, useEffect, useRef, useState } from "../parts.js";

const CUT = 2000, NUMBERS = /INT|DOUBLE|FLOAT|DECIMAL/;
const NEWEST = [1000, 10000, 50000].map((most) => [most, `the newest ${count(most)} records`]);

// Numbers as they were written: this language's own lose digits behind the sixteenth.
const raw = (_, value, written) => typeof value === "number" && JSON.rawJSON ? JSON.rawJSON(written.source) : value;
const read = (json) => ({ ...JSON.parse(json), rows: JSON.parse(json, raw).rows });

function Cell({ of }) {
  if (of === null) return html`<${Null} />`;
  const text = typeof of === "object" ? JSON.stringify(of) : String(of);
  return html`<span class="value">${text.length > CUT ? `${text.slice(0, CUT)}…` : text}</span>`;
}

function Answer({ of: { columns, rows, more, topics } }) {
  const shown = columns.map(({ name, type }, i) => ({
    name: i, label: html`${name} <small>${type}</small>`, number: NUMBERS.test(type), cell: ({ cells }) => html`<${Cell} of=${cells[i]} />`,
  }));
  return html`<section class="page" aria-labelledby="answer"><h2 id="answer">Result</h2>
    <ul class="muted" role="status">${topics.map((one) => html`<li><span class="value">${one.topic}</span>: ${one.whole ? "all of its" : "the newest"} ${plural(one.records, "record")} read, ${bytes(one.bytes)}</li>`)}</ul>
    <${PagedTable} label="Rows" what="row" note=${more ? ", and more not sent" : ""} columns=${shown} rows=${rows.map((cells, i) => ({ cells, i }))} rowKey=${(row) => row.i} empty="No rows" />
  </section>`;
}

export default function ({ query: { topic } }) {
  const [answer, show] = useState(null);
  const { current: over } = useRef(new AbortController());
  useEffect(() => () => over.abort(), []);
  const ask = async ({ sql, most }) => {
    show(null);
    const found = await request("/v1/sql", { method: "POST", body: { sql, max_records: Number(most) }, signal: over.signal });
    show(read(await found.text()));
  };
  const press = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  };
  return html`<div class="page">
    <div class="head"><h1>SQL</h1></div>
    <${Form} class="card" action="Run" onSend=${ask}>
      <${Field} label="Statement" name="sql" rows="6" required onKeyDown=${press} value=${topic && `select * from "${topic}" order by timestamp desc limit 20`}
        hint="A SELECT in DuckDB's SQL, with topics as tables. Ctrl-Enter runs it." />
      <${Field} label="Rows per topic" name="most" value="10000" options=${NEWEST} /><//>
    ${answer && html`<${Answer} of=${answer} />`}
  </div>`;
}

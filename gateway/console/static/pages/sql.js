import {
  bytes, count, duration, Field, Form, get, html, Loaded, Null, PagedTable, plural, request, saved, toast, useEffect, useLoad, useRef, useSettled, useState,
} from "../parts.js";
import { columnsOf, SqlEditor } from "../components/sql_editor.js";
import { quoted } from "../sql_words.js";

const CUT = 2000, NUMBERS = /INT|DOUBLE|FLOAT|DECIMAL/, KEPT = 50, LISTED = 50;
const NEWEST = [1000, 10000, 50000].map((most) => [most, `the newest ${count(most)} records`]);
const HISTORY = "tidelog.sql";

// Numbers as they were written: this language's own lose digits behind the sixteenth.
const raw = (_, value, written) => typeof value === "number" && JSON.rawJSON ? JSON.rawJSON(written.source) : value;
const read = (json) => ({ ...JSON.parse(json), rows: JSON.parse(json, raw).rows });
const shown = (value) => typeof value === "object" ? JSON.stringify(value) : String(value);

// What this browser has run, the newest first.
function remembered() { try { return JSON.parse(localStorage.getItem(HISTORY)) || []; } catch { return []; } }
function remember(statements) {
  try { localStorage.setItem(HISTORY, JSON.stringify(statements)); } catch { /* for this page only */ }
  return statements;
}

const csv = ({ columns, rows }) => [columns.map((one) => one.name), ...rows].map((cells) => cells.map((value) => {
  const text = value === null ? "" : shown(value);
  return /[",\r\n]/.test(text) || text === "" && value !== null ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\r\n");

function Cell({ of }) {
  if (of === null) return html`<${Null} />`;
  const text = shown(of);
  return html`<span class="value">${text.length > CUT ? `${text.slice(0, CUT)}…` : text}</span>`;
}

// The gateway answers anew: in a file values have their own types, and there may be more rows.
async function parquet(body) {
  const answer = await request("/v1/sql", { method: "POST", body, accept: "application/vnd.apache.parquet" });
  saved(await answer.blob(), "result.parquet");
  if (answer.headers.get("tidelog-more") === "true") toast("The file has the first 50,000 rows.");
}

function Answer({ of: { columns, rows, more, topics, ms, body } }) {
  const heads = columns.map(({ name, type }, i) => ({
    name: i, short: name, label: html`${name} <small>${type}</small>`, number: NUMBERS.test(type), cell: ({ cells }) => html`<${Cell} of=${cells[i]} />`,
  }));
  const [failed, fail] = useState("");
  return html`<section class="page" aria-labelledby="answer"><div class="head"><h2 id="answer">Result</h2><div class="actions">
      <button onClick=${() => saved(new Blob([csv({ columns, rows })], { type: "text/csv" }), "result.csv")}>Save as CSV</button>
      <button onClick=${() => parquet(body).then(() => fail(""), (problem) => fail(problem.message))}>Save as Parquet</button></div></div>
    ${failed && html`<p class="warn" role="alert">${failed}</p>`}
    <ul class="muted" role="status">${topics.map((one) => html`<li><span class="value">${one.topic}</span>: ${one.whole ? "all of its" : "the newest"} ${plural(one.records, "record")} read, ${bytes(one.bytes)}</li>`)}</ul><p class="muted">${duration(ms)}</p>
    <${PagedTable} label="Rows" what="row" note=${more ? ", and more not sent" : ""} columns=${heads} rows=${rows.map((cells, i) => ({ cells, i }))} rowKey=${(row) => row.i} empty="No rows" />
  </section>`;
}

// Columns of a topic; a click puts a name where the cursor is.
function Columns({ of, onName }) {
  const load = useLoad((signal) => columnsOf(of, signal), [of]);
  return html`<${Loaded} from=${load}>${(columns) => html`<ul>${columns.map(([name, type]) => html`<li key=${name}>
    <button class="quiet value" onClick=${() => onName(name)}>${name}</button> <small class="muted">${type}</small></li>`)}</ul>`}<//>`;
}

function Tables({ onName }) {
  const [search, type] = useState(""), [open, unfold] = useState(null), settled = useSettled(search);
  const load = useLoad((signal) => get("/v1/topics", { query: { search: settled, limit: LISTED, max_age_ms: 60000 }, signal }), [settled]);
  return html`<section class="card tables" aria-labelledby="tables"><h2 id="tables">Tables</h2>
    <${Field} label="Search" type="search" value=${search} onInput=${(event) => type(event.target.value)} />
    <${Loaded} from=${load}>${({ topics, next }) => html`<ul>${topics.map(({ name }) => html`<li key=${name}>
      <button class="fold" aria-label=${`Columns of ${name}`} aria-expanded=${String(open === name)} onClick=${() => unfold(open === name ? null : name)}></button><button class="quiet value" onClick=${() => onName(quoted(name))}>${name}</button>
      ${open === name && html`<${Columns} of=${name} onName=${onName} />`}</li>`)}</ul>
      ${topics.length === 0 && html`<p class="muted">No topics</p>`}${next && html`<p class="muted">and more: search</p>`}`}<//></section>`;
}

export default function ({ query: { topic } }) {
  const [answer, show] = useState(null), [running, run] = useState(null), [past, keep] = useState(remembered);
  const [sql, write] = useState(topic ? `select * from ${quoted(topic)} order by timestamp desc limit 20` : "");
  const editor = useRef();
  useEffect(() => () => running?.abort(), [running]);
  const ask = async ({ most }) => {
    const body = { sql, max_records: Number(most) }, over = new AbortController(), begun = performance.now();
    show(null);
    run(over);
    keep((old) => remember([sql, ...old.filter((one) => one !== sql)].slice(0, KEPT)));
    try {
      const found = await request("/v1/sql", { method: "POST", body, signal: over.signal });
      show({ ...read(await found.text()), ms: performance.now() - begun, body });
    } catch (problem) {
      if (problem.name !== "AbortError") throw problem;
      toast("The statement was cancelled.");
    } finally { run(null); }
  };
  const press = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.target.form.requestSubmit();
  };
  const put = (name) => {
    const area = editor.current.querySelector("textarea");
    area.focus();
    area.setRangeText(name, area.selectionStart, area.selectionEnd, "end");
    write(area.value);
  };
  return html`<div class="page">
    <div class="head"><h1>SQL</h1></div>
    <div class="asking" ref=${editor}><${Tables} onName=${put} />
    <${Form} class="card" action="Run" onSend=${ask} more=${running && html`<button type="button" onClick=${() => running.abort()}>Cancel</button>`}>
      <${SqlEditor} name="sql" rows="8" required value=${sql} onInput=${write} onKeyDown=${press} />
      <${Field} label="Rows per topic" name="most" value="10000" options=${NEWEST} />
      ${past.length > 0 && html`<details><summary>History</summary><ul>${past.map((one) => html`<li key=${one}><button type="button" class="quiet value cut" title=${one} onClick=${() => write(one)}>${one}</button></li>`)}</ul>
        <button type="button" class="quiet" onClick=${() => keep(remember([]))}>Clear the history of this browser</button></details>`}<//></div>
    ${answer && html`<${Answer} of=${answer} />`}
  </div>`;
}

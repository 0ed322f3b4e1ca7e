import {
  Empty, Escaped, Field, FormDialog, get, go, html, link, Loaded, minor, number, Pager, post, readonly, replaceQuery, Table, text, toast,
  useLoad, useSettled, useState,
} from "../parts.js";
import { registry } from "../schemas.js";

const PAGE = 100;
export const TYPES = ["AVRO", "JSON", "PROTOBUF"];

const COLUMNS = [
  text("subject", "Subject", { cell: (row) => html`<a class="value" href=${link`/schemas/${row.subject}`}><${Escaped} of=${row.subject} /></a>` }),
  text("type", "Type", { value: (row) => row.schemaType || "AVRO" }),
  number("version", "Newest version"),
  number("id", "Id", minor),
];

function Register({ onClose }) {
  const send = async ({ subject, type, schema }) => {
    const { id } = await post(registry`/subjects/${subject}/versions`, { schema, schemaType: type });
    toast(`Subject ${subject} has the schema, id ${id}.`);
    go(link`/schemas/${subject}`);
  };
  return html`<${FormDialog} wide title="Register schema" onClose=${onClose} action="Register" onSend=${send}>
    <${Field} label="Subject" name="subject" required hint="For values of a topic: its name and -value; for keys: -key" />
    <${Field} label="Type" name="type" options=${TYPES} />
    <${Field} label="Schema" name="schema" rows="12" required />
  <//>`;
}

export default function Schemas({ query }) {
  const [asking, ask] = useState(false);
  const search = useSettled(query.search || ""), from = Number(query.from || 0);
  const schemas = useLoad((signal) => get("/registry/schemas", { query: { subjectPrefix: search, latestOnly: true, offset: from, limit: PAGE + 1 }, signal }), [search, from]);
  const turn = (to) => replaceQuery({ from: to || "" });
  return html`<div class="page">
    <div class="head"><h1>Schemas</h1>${!readonly && html`<button class="primary" onClick=${() => ask(true)}>Register schema</button>`}</div>
    <div class="bar" role="search"><${Field} class="grow" label="Search" type="search" placeholder="Prefix of the subject" value=${query.search || ""}
      onInput=${(event) => replaceQuery({ search: event.target.value, from: "" })} /></div>
    <${Loaded} from=${schemas} lines=${8}>${(found) => html`
      <${Table} label="Subjects" columns=${COLUMNS} rows=${found.slice(0, PAGE)} rowKey=${(row) => row.subject} sort=${["subject", 1]}
        empty=${search || from ? html`<${Empty} title="No matching subjects" />` : html`<${Empty} title="No schemas yet"><p>A topic with a schema checks each record, and its table has the members as columns. Register one here, or with <code>tidelog schema register orders-value order.avsc</code>.</p><//>`} />
      ${(from > 0 || found.length > PAGE) && html`<${Pager} text="" onBack=${from > 0 && (() => turn(Math.max(0, from - PAGE)))} onNext=${found.length > PAGE && (() => turn(from + PAGE))} />`}`}<//>
    ${asking && html`<${Register} onClose=${() => ask(false)} />`}
  </div>`;
}

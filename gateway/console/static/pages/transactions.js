import {
  ago, Empty, Escaped, Field, FormDialog, get, html, Loaded, minor, number, Pager, path, post, readonly, replaceQuery, since,
  Table, text, toast, useLoad, useSettled, useState,
} from "../parts.js";

const STATES = { open: "warn", committing: "warn", committed: "ok", aborted: "bad" };

const columns = (abort) => [
  text("transactional_id", "Transactional id"),
  text("state", "State", { cell: (row) => html`<span class=${`tag ${STATES[row.state]}`}>${row.state}</span>` }),
  since("began_at", "Started"),
  number("expires_at", "Times out", { cell: (row) => row.state === "open" ? ago(row.expires_at) : "–" }),
  number("checks", "Checks", minor),
  number("epoch", "Epoch", minor),
  ...(readonly ? [] : [text("abort", "Change", { value: null, cell: (row) => row.state === "open" && html`<button aria-label=${`Abort ${row.transactional_id}`} onClick=${() => abort(row)}>Abort</button>` })]),
];

export default function ({ query: { state = "open", prefix = "" } }) {
  const [before, turn] = useState([]); // the cursors of the pages up to this one
  const [asked, ask] = useState(null);
  const settled = useSettled(prefix);
  const wish = { state: state === "all" ? "" : state, transactional_id_prefix: settled, limit: 50, after: before.at(-1) };
  const found = useLoad((signal) => get("/v1/transactions", { query: wish, signal }), [JSON.stringify(wish)], 3000);
  const look = (name) => (event) => { turn([]); replaceQuery({ [name]: event.target.value }); };
  const abort = async () => {
    await post(path`/v1/transactions/${asked.transaction_id}:abort`);
    toast(`The transaction of ${asked.transactional_id} is aborted.`);
    found.reload();
    ask(null);
  };
  return html`<div class="page">
    <div class="head"><h1>Transactions</h1></div>
    <div class="bar">
      <${Field} label="State" value=${state} options=${["open", "committing", "committed", "aborted", "all"]} onInput=${look("state")} />
      <${Field} class="grow" label="Prefix of the transactional id" type="search" value=${prefix} onInput=${look("prefix")} />
    </div>
    <${Loaded} from=${found} lines=${6}>${({ transactions, next }) => html`
      <${Table} label="Transactions" columns=${columns(ask)} rows=${transactions} rowKey=${(row) => row.transaction_id}
        empty=${html`<${Empty} title=${state === "open" ? "No open transactions" : "No matching transactions"}><p>Ended transactions are kept for a day.</p><//>`} />
      ${(next || before.length > 0) && html`<${Pager} text=${`Page ${before.length + 1}`} onBack=${before.length > 0 && (() => turn(before.slice(0, -1)))} onNext=${next && (() => turn([...before, next]))} />`}`}<//>
    ${asked && html`<${FormDialog} title="Abort transaction" onClose=${() => ask(null)} action="Abort" danger onSend=${abort}>
      <p>No record of the open transaction of <bdi><strong class="value"><${Escaped} of=${asked.transactional_id} /></strong></bdi> will ever appear.</p>
      <p class="muted value">${asked.transaction_id}</p>
    <//>`}
  </div>`;
}

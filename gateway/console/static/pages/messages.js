import {
  Copied, count, Dialog, Empty, Field, FormDialog, get, html, Loaded, Pager, path, plural, post, Problem, ProblemBox, replaceQuery,
  request, saved, toast, token, TopicLink, useChanges, useEffect, useLoad, useRef, useSettled, useState,
} from "../parts.js";
import { RecordList } from "../components/record_list.js";
import { code } from "../record.js";
import { decode } from "../schemas.js";
import { behind, tail } from "../tail.js";

const PAGE = 100, LOOKED = 2000, LIVE_SHOWN = 500, SINGLY_MAX = 64;
const FROM = [["latest", "the newest"], ["earliest", "the oldest"], ["offset", "an offset"], ["time", "a time"]];
const FORMATS = [["NDJSON", "application/x-ndjson", "ndjson"], ["Arrow", "application/vnd.apache.arrow.stream", "arrows"], ["Parquet", "application/vnd.apache.parquet", "parquet"]];

const filterOf = ({ key, header, text }) => ({
  ...(key ? { key } : {}), ...(header ? { headers: [header.includes(":") ? header : `${header}:*`] } : {}), ...(text ? { value_contains: text } : {}),
});

const inQuery = ({ headers, ...others }) => ({ header: headers, ...others });
const given = (filter) => Object.keys(filter).length ? { filter } : {};
// How far a page looks in one of so many partitions: with a filter most records don't fit.
const share = (filter, partitions) => Math.max(1, Math.floor((given(filter).filter ? LOOKED : PAGE) / partitions));

// The first record from this time on; undefined: there is none yet.
const offsetAt = async (topic, partition, time, signal) =>
  (await get(path`/v1/topics/${topic}/partitions/${partition}/offsets`, { query: { timestamp: Date.parse(time) || 0 }, signal })).offset ?? undefined;

// Where each partition is read from: Map of partition -> offset.
async function positions(topic, query, signal) {
  const described = await get(path`/v1/topics/${topic}`, { signal });
  const all = query.partition ? described.partitions.filter((one) => String(one.partition) === query.partition) : described.partitions;
  if (!all.length) throw new Error(`Partition ${query.partition} does not exist: ${topic} has partitions 0 to ${described.partition_count - 1}.`);
  const from = query.from || "latest", back = share(filterOf(query), all.length);
  const at = async ({ partition, log_start_offset: start, high_watermark: end }) => {
    if (from === "earliest") return start;
    if (from === "offset") { // each of several partitions has an end of its own; beyond that of the only one is a mistake
      const asked = Number(query.offset || 0) + (query.offset < 0 ? end : 0);
      return all.length > 1 || query.offset < 0 ? Math.min(end, Math.max(start, asked)) : asked;
    }
    if (from === "time") return await offsetAt(topic, partition, query.time, signal) ?? end;
    return from === "end" ? end : Math.max(start, end - back);
  };
  if (from === "time" && all.length > SINGLY_MAX) throw new Error(`Choose a partition: times are looked up in at most ${SINGLY_MAX} partitions.`);
  return new Map(await Promise.all(all.map(async (one) => [one.partition, await at(one)])));
}

// `until`: where the page after it begins.
async function fetched(topic, { from, until }, filter, signal) {
  const back = share(filter, from.size), limits = { max_records: given(filter).filter ? LOOKED : PAGE, max_bytes: 4 << 20 };
  const partitions = [...from].map(([partition, offset]) => ({ topic, partition, offset, ...given(filter) }));
  // One answer for all would spend its limit on what follows the first of them.
  const { partitions: found } = until
    ? { partitions: await Promise.all([...from].map(([partition, offset]) => get(path`/v1/topics/${topic}/partitions/${partition}/records`, { query: { ...limits, offset, max_records: back, ...inQuery(filter) }, signal }))) }
    : await post("/v1/fetch", { partitions, ...limits }, { signal });
  const failed = found.find((one) => one.error);
  if (failed) throw new Problem(0, failed.error);
  const end = (one) => until?.get(one.partition) ?? one.high_watermark, first = (one) => from.get(one.partition);
  const records = found.flatMap((one) => one.records.filter((record) => record.offset < end(one))).sort((a, b) => a.timestamp - b.timestamp);
  await decode(records);
  const page = (some, at, until) => some.length ? { from: new Map(some.map((one) => [one.partition, at(one)])), until } : null;
  return {
    records,
    older: from.size <= SINGLY_MAX && page(found.filter((one) => first(one) > one.log_start_offset), (one) => Math.max(one.log_start_offset, first(one) - back), from),
    next: page(found.filter((one) => one.next_offset < end(one)), (one) => one.next_offset, until),
  };
}

function Browse({ topic, query, asked, made }) {
  const [steps, step] = useState([]);
  const at = steps[steps.length - 1], newest = (query.from || "latest") === "latest";
  useEffect(() => step([]), [asked]);
  const load = useLoad(async (signal) => fetched(topic, at || { from: await positions(topic, query, signal) }, filterOf(query), signal), [at, asked, made]);
  return html`<${Loaded} from=${load} lines=${12}>${({ records, next, older }) => html`
    <${RecordList} topic=${topic} query=${query} label="Messages" rows=${newest ? [...records].reverse() : records}
      empty=${html`<${Empty} title="No messages"><p>${next ? "None of the messages searched matches the filter. Later ones were not searched." : older ? "None of the messages searched matches. Older ones were not searched." : "New ones appear with Live."}</p><//>`}>
      <${Pager} text=${plural(records.length, "message") + (older && given(filterOf(query)).filter ? "; older ones were not searched" : "")} onBack=${steps.length > 0 && (() => step(steps.slice(0, -1)))} onNext=${next && (() => step([...steps, next]))}>
        ${older && html`<button onClick=${() => step([...steps, older])}>Older</button>`}<//><//>`}<//>`;
}

// The newest few are shown. All are counted, and what is not here yet is told.
function Live({ topic, query }) {
  const [shown, show] = useState({ records: [], total: 0, state: "connecting" });
  const [late, tellLate] = useState(0);
  const [paused, pause] = useState(false);
  const kept = useRef({ records: [], total: 0, at: null });
  useEffect(() => {
    if (paused) return undefined;
    let end = () => {}, over = false, state = "connecting";
    const take = async (given) => {
      const records = await decode(given);
      const all = kept.current;
      all.total += records.length;
      // A large value is loaded again when it is opened, so what waits here stays small.
      for (const one of records) {
        if (one.value_decoded?.text) one.value_decoded.text = one.value_decoded.text.slice(0, 400);
        all.records.push(one.value?.length > 400 ? { ...one, value: one.value.slice(0, 400) } : one);
      }
      if (all.records.length > 2 * LIVE_SHOWN) all.records.splice(0, all.records.length - LIVE_SHOWN);
    };
    const begin = async () => {
      kept.current.at ||= await positions(topic, { ...query, from: "end" });
      if (!over) end = tail(topic, kept.current.at, filterOf(query), take, (word) => { state = word; });
    };
    begin().catch((problem) => { state = problem; });
    const draw = setInterval(() => show({ records: kept.current.records.slice(-LIVE_SHOWN).reverse(), total: kept.current.total, state }), 250);
    const look = setInterval(() => kept.current.at && behind(topic, kept.current.at).then(tellLate, () => {}), 3000);
    return () => { over = true; end(); clearInterval(draw); clearInterval(look); };
  }, [paused]);
  return html`${shown.state instanceof Error && html`<${ProblemBox} problem=${shown.state} />`}
    <div class="bar"><p class="muted grow" role="status">${count(shown.total)} received${shown.total > LIVE_SHOWN && `, the newest ${LIVE_SHOWN} shown`}${late > 1000 ? `; ${count(late)} more are in the log and will follow` : ""}${shown.state === "waiting" ? "; reconnecting" : ""}</p>
      <button onClick=${() => pause(!paused)}>${paused ? "Resume" : "Pause"}</button></div>
    <${RecordList} topic=${topic} query=${query} label="Messages, newest first" rows=${shown.records} empty=${html`<${Empty} title="Waiting for messages" />`} />`;
}

function Produce({ topic, onClose, onDone }) {
  const send = async ({ key, value, headers, partition, tombstone }, form) => {
    const listed = headers.split("\n").filter(Boolean).map((line) => { const [name, ...rest] = line.split(":"); if (!rest.length) throw new Error(`Write a header as name: value, not ${line}`); return { key: name.trim(), value: rest.join(":").trim() }; });
    const record = { key: key || null, value: tombstone ? null : value, headers: listed, ...(partition ? { partition: Number(partition) } : {}) };
    const { partitions: [at] } = await post(path`/v1/topics/${topic}/records`, { records: [record] });
    toast(`Stored in partition ${at.partition} at offset ${at.base_offset}.`);
    form.elements.value.select();
    onDone();
  };
  return html`<${FormDialog} title="Produce a message" onClose=${onClose} action="Produce" onSend=${send}>
    <${Field} label="Key" name="key" hint="Empty: no key" />
    <${Field} label="Value" name="value" rows="6" />
    <${Field} label="Headers" name="headers" rows="2" placeholder="name: value" />
    <${Field} label="Partition" name="partition" type="number" min="0" hint="Empty: by the key" />
    <${Field} label="Tombstone: the value is null" name="tombstone" type="checkbox" />
  <//>`;
}

// `until`: {offset} or {time} of the first record that is left out, or neither.
async function download(topic, query, [[partition, offset]], until, accept, ending) {
  const end = (until.time ? await offsetAt(topic, partition, until.time) : until.offset && Number(until.offset)) ?? Infinity;
  const records = (accept, max_records) => request(path`/v1/topics/${topic}/partitions/${partition}/records`, { accept, query: { offset, ...inQuery(filterOf(query)), max_records, max_bytes: 64 << 20 } });
  const most = Math.min(100000, end - offset), none = new Error("There is no record before this end.");
  if (most < 1) throw none;
  let answer = await records(accept, most);
  const next = Number(answer.headers.get("tidelog-next-offset"));
  if (next > end) { // offsets have gaps, by a filter or by compaction: so many records are before the end
    const lines = (await (await records("application/x-ndjson", most)).text()).split("\n").filter(Boolean);
    while (lines.length && JSON.parse(lines[lines.length - 1]).offset >= end) lines.pop();
    if (!lines.length) throw none;
    answer = await records(accept, lines.length);
  }
  saved(await answer.blob(), `${topic}-${partition}-${offset}.${ending}`);
  toast(`Partition ${partition}, offsets ${offset} to ${Math.min(next, end) - 1}.`);
}

function Take({ topic, query, onClose }) {
  const [problem, tell] = useState(null);
  const [until, bound] = useState({ kind: "" });
  const load = useLoad((signal) => positions(topic, query, signal));
  const texts = load.data && code(location.origin, { ...query, topic, from: [...load.data], header: filterOf(query).headers?.[0], signed: Boolean(token()) });
  const save = (...kind) => download(topic, query, load.data, until, ...kind).then(() => tell(null), tell);
  return html`<${Dialog} wide title="Copy or download" onClose=${onClose}><${Loaded} from=${load}>${() => html`<div class="page">
    <section><h3>Download</h3><p class="muted">From this position: up to 64 MiB of ${query.partition ? `partition ${query.partition}` : "the first partition; choose another one on the page"}.</p>
      <div class="bar"><${Field} label="Until" options=${[["", "64 MiB or the end"], ...FROM.slice(2)]} value=${until.kind} onChange=${(event) => bound({ kind: event.target.value })} />
        ${until.kind && html`<${Field} key=${until.kind} label="Exclusive end" type=${until.kind === "time" ? "datetime-local" : "number"} min="0" step="1"
          onChange=${(event) => bound({ kind: until.kind, [until.kind]: event.target.value })} />`}</div>
      <div class="actions">${FORMATS.map(([name, ...kind]) => html`<button onClick=${() => save(...kind)}>${name}</button>`)}</div>
      ${problem && html`<${ProblemBox} problem=${problem} />`}</section>
    ${Object.entries(texts).map(([name, text]) => html`<${Copied} name=${name} text=${text} />`)}
  </div>`}<//><//>`;
}

// A field whose filter holds as soon as the typing rests.
function Typed({ value, onSettled, ...field }) {
  const [typed, type] = useState(value);
  const sent = useRef(value);
  const send = (text) => { if (text !== sent.current) { sent.current = text; onSettled(text); } };
  const settled = useSettled(typed, 300);
  useEffect(() => send(settled), [settled]);
  useEffect(() => { if (value !== sent.current) { sent.current = value; type(value); } }, [value]);
  return html`<${Field} ...${field} value=${typed} onInput=${(event) => type(event.target.value)} onChange=${(event) => send(event.target.value)} />`;
}

export default function Messages({ params: { topic }, query }) {
  const [asked, ask] = useState(null);
  const [made, make] = useState(0);
  const [mayWrite] = useChanges(["Write", "topic", topic]);
  const live = query.live === "1";
  const set = (name) => (value) => replaceQuery({ [name]: value, open: undefined });
  const field = (name) => ({ name, value: query[name] || "", onChange: (event) => set(name)(event.target.value) });
  const typed = (name) => ({ name, value: query[name] || "", onSettled: set(name) });
  const filter = [topic, query.partition, query.key, query.header, query.text];
  const place = JSON.stringify([...filter, query.from, query.offset, query.time]);
  return html`<div class="page">
    <div class="head"><div><p class="crumbs"><a href="#/topics">Topics</a> / <${TopicLink} of=${topic} /></p><h1>Messages</h1></div>
      <div class="actions"><button aria-pressed=${String(live)} onClick=${() => replaceQuery({ live: live ? "" : "1" })}>${live ? "Browse" : "Live"}</button>
        <button onClick=${() => ask("take")}>Copy or download…</button>${mayWrite && html`<button class="primary" onClick=${() => ask("produce")}>Produce…</button>`}</div></div>
    <form class="bar" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${Field} label="Partition" type="number" min="0" placeholder="all" ...${field("partition")} />
      ${!live && html`<${Field} label="From" options=${FROM} ...${field("from")} value=${query.from || "latest"} />`}
      ${!live && query.from === "offset" && html`<${Field} label="Offset" type="number" placeholder="-5: the last five" ...${field("offset")} />`}
      ${!live && query.from === "time" && html`<${Field} label="Time" type="datetime-local" step="1" ...${field("time")} />`}
      <${Typed} label="Key" ...${typed("key")} /><${Typed} label="Header" placeholder="name or name:value" ...${typed("header")} />
      <${Typed} class="grow" label="Value contains" type="search" ...${typed("text")} />
    </form>
    ${live ? html`<${Live} key=${filter.join("\n")} topic=${topic} query=${query} />` : html`<${Browse} topic=${topic} query=${query} asked=${place} made=${made} />`}
    ${asked === "produce" && html`<${Produce} topic=${topic} onClose=${() => ask(null)} onDone=${() => make(made + 1)} />`}
    ${asked === "take" && html`<${Take} topic=${topic} query=${query} onClose=${() => ask(null)} />`}
  </div>`;
}

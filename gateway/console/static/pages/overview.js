import {
  ago, bytes, bytesPerSecond, count, duration, Empty, Escaped, Figures, get, GroupLink, html, link, Loaded, minor, money, number, perSecond, Plot, plural,
  replaceQuery, since, Table, text, time, TopicLink, useLoad, useRoute, useState, withQuery,
} from "../parts.js";
import { clusterCost } from "../cost.js";

const MINUTE_MS = 60_000, DAY_MS = 86_400_000;
const PLOTS = [
  { title: "Records", format: perSecond, series: [["produced", "produced_records"], ["fetched", "fetched_records"]] },
  { title: "Bytes", format: bytesPerSecond, binary: true, series: [["produced", "produced_bytes"], ["sent", "sent_bytes"]] },
  { title: "Acknowledgement", format: duration, series: [["p50", "acknowledgement_p50_ms"], ["p99", "acknowledgement_p99_ms"]] },
  { title: "Commit", format: duration, series: [["p50", "commit_p50_ms"], ["p99", "commit_p99_ms"]] },
];
const LASTING = [...PLOTS,
  { title: "Largest lag", format: count, series: [["records", "lag_records"]] },
  { title: "Requests to the store", format: perSecond, series: [["PUT", "store_puts"], ["GET", "store_gets"]] },
];
const KNOWN = [...LASTING.flatMap((plot) => plot.series.map(([, name]) => name)), "stored_bytes", "store_lists", "store_heads"];
// [name, milliseconds, step]: `hour` is of the gateway that answers, the others of the history of all gateways.
const RANGES = { hour: ["1 hour"], day: ["24 hours", DAY_MS, 15 * MINUTE_MS], week: ["7 days", 7 * DAY_MS, 60 * MINUTE_MS], month: ["30 days", 30 * DAY_MS, 240 * MINUTE_MS] };
const GATEWAYS = [
  text("id", "Gateway"),
  text("url", "URL"),
  text("kafka", "Kafka", minor),
  text("zone", "Zone", minor),
  since("started_at", "Started", { number: false }),
  number("owned_topics", "Open topics"),
];

// A problem of a part is a part's: the others are shown.
const tried = (promise) => promise.catch((problem) => { if (problem.name === "AbortError") throw problem; return { problem }; });

async function look(signal) {
  const [cluster, hour, alarms, ready] = await Promise.all([
    get("/v1/cluster", { query: { include: "maintenance" }, signal }), ...["/v1/activity", "/v1/monitoring/alarms", "/readyz"].map((route) => tried(get(route, { signal }))),
  ]);
  cluster.maintenance ??= {};
  return { cluster, hour, alarms, ready };
}

// {times, values by name}: rates a second where the history has numbers; without the steps that are not written yet.
async function history(length, step, signal) {
  const until = Date.now(), { series, ...found } = await get("/v1/monitoring/history", { query: { series: KNOWN.join(","), since: until - length, until, step }, signal });
  const all = new Map(series.map((one) => [one.series, one.values]));
  const written = [...all.values()].reduce((most, values) => Math.max(most, values.findLastIndex((one) => one !== null) + 1), 0);
  const isLevel = (name) => /_ms$|^lag_|^stored_/.test(name);
  const seconds = (i) => Math.min(step, Math.max(MINUTE_MS, until - found.since - i * step)) / 1000; // the newest step is not over
  const values = (name) => (all.get(name) || []).slice(0, written).map((one, i) => one === null || isLevel(name) ? one : one / seconds(i));
  return { times: Array.from({ length: written }, (_, i) => found.since + i * step), values: Object.fromEntries(KNOWN.map((name) => [name, values(name)])) };
}

// The group that is furthest behind in a topic, as the history knew last; undefined: none is.
async function furthest(signal) {
  const { series } = await get("/v1/monitoring/history", { query: { series: "lag_records", by: "group", step: 15 * MINUTE_MS }, signal });
  const found = series.map((one) => ({ ...one, lag: one.values.findLast((value) => value !== null) || 0 })).sort((a, b) => b.lag - a.lag);
  return found[0]?.lag ? found[0] : undefined;
}

const lasting = (signal) => tried(Promise.all([history(DAY_MS, 15 * MINUTE_MS, signal), furthest(signal)]).then(([day, behind]) => ({ day, behind })));
const summed = (signal) => tried(get("/v1/topics:summary", { query: { limit: 0 }, signal }));

function amiss({ cluster, alarms, ready }, damaged = []) {
  const told = (one) => ({ ...one, [one.severity === "page" ? "bad" : "warn"]: true });
  const found = [...(alarms.alarms || []).map(told), ...(alarms.pending || []).map((one) => ({ ...one, pending: true }))];
  const known = new Set(found.map((one) => [one.alarm, ...one.about].join("\n")));
  for (const one of alarms.notices || []) if (!known.has(["ConsumerBehind", ...one.about].join("\n"))) found.push({ ...one, alarm: one.notice, note: one.severity === "notice", noticed: true });
  if (ready.problem) found.unshift({ bad: true, said: ready.problem.message });
  // What is known now, and why, in place of the alarm that a minute makes of it.
  const now = (alarm, one) => {
    const at = found.findIndex((other) => other.alarm === alarm), judged = at < 0 ? {} : found.splice(at, 1)[0];
    found.unshift({ ...judged, alarm, about: [], ...one });
  };
  const { maintenance } = cluster, failed = maintenance.failed_topics;
  if (failed) found.unshift({ said: `The last round of maintenance failed for ${plural(failed, "topic")}: its log says for which, and why.` });
  if (maintenance.state === "overdue") now("MaintenanceOverdue", { said: `No maintenance has run since ${time(maintenance.seen_at).slice(0, 16)}: its process hangs or is dead, or its timer does not start it. Start tidelog maintain.` });
  if (ready.failing_writes) now("WritesFail", { bad: true, said: `Writes of this gateway fail: ${ready.failing_writes.detail}. What the store holds can be read.`, since: ready.failing_writes.since });
  for (const one of damaged) found.unshift({ bad: true, said: `Topic ${one.name} is damaged: ${one.detail}`, alarm: "TopicDamaged", about: [one.name] });
  if (cluster.journals.held_back) found.push({ said: `No further topic can use a journal: ${cluster.journals.held_back}` });
  return found;
}

// What an alarm is about leads there.
const plot = (name) => () => html`<a href=${withQuery("#/", { plot: name })}>${name} of the last hour</a>`;
const page = (path, name) => () => html`<a href=${`#/${path}`}>${name}</a>`;
const unmerged = page("topics?sort=segments&order=desc", "topics with the most segments"), shared = page("topics", "topics");
const states = { groups: "groups", queues: "queues", transactions: "transactions", transactional_ids: "transactions", schemas: "schemas", access: "access" };
const behind = ([group, topic]) => html`<${GroupLink} of=${group} />, <${TopicLink} of=${topic} />`;
const ABOUT = {
  AcknowledgementSlow: plot("Acknowledgement"), Refusals: plot("Records"), FlushesFail: plot("Commit"), WritesFail: page("?part=gateways", "gateways"), StoreErrors: plot("Commit"), CommitsConflict: plot("Commit"),
  MaintenanceBehind: unmerged, MaintenanceOverdue: unmerged, TopicsUnmaintained: unmerged, JournalNotDrained: shared, DrainsFail: shared,
  StateNearItsBound: ([of]) => states[of] && page(states[of], states[of])(),
  ConsumerBehind: behind, ConsumerStalled: behind,
  QueueBlocked: ([queue, topic]) => html`<a class="value" href=${link`/queues/${queue}`}><${Escaped} of=${queue} /></a>, <${TopicLink} of=${topic} />`,
  RecordsDropped: page("queues", "queues"), DelayedRecordsLate: page("?part=gateways", "gateways"), CertificateExpires: page("?part=gateways", "gateways"),
  TopicDamaged: ([topic]) => html`<a class="value" href=${withQuery("#/topics", { search: topic })}>what to do</a>`,
};
const About = ({ alarm, about }) => ABOUT[alarm] ? html` ${ABOUT[alarm](about)}` : "";

function Alarms({ of, quiet }) {
  return html`<ul class="alarms" aria-live="polite">${of.length
    ? of.map((one) => html`<li class=${one.bad ? "bad" : one.note ? "note" : ""}><${Escaped} of=${one.said} /><${About} ...${one} />${one.since && html` <small>${one.noticed ? "" : one.pending ? "pending " : "firing "}since ${time(one.since).slice(11, 16)}</small>`}</li>`)
    : html`<li class="ok">${quiet}</li>`}</ul>`;
}

// A link may lead to a part of the page: it is brought into sight.
const there = (element) => element && requestAnimationFrame(() => element.scrollIntoView({ block: "center" }));

function Plots({ of, times, values }) {
  const shared = useState(null), { query } = useRoute();
  return html`<div class="cards">${of.map((plot) => html`<div class=${query.plot === plot.title ? "card marked" : "card"} ref=${query.plot === plot.title ? there : null} key=${plot.title}>
    <${Plot} title=${plot.title} format=${plot.format} binary=${plot.binary} times=${times} shared=${shared} series=${plot.series.map(([label, name]) => ({ label, values: values[name] }))} />
  </div>`)}</div>`;
}

function Missing({ problem, what }) {
  if (problem.status === 403) return html`<${Empty} title=${`${what} is shown to operators only`}><p>You need the right Describe on the cluster.</p><//>`;
  return html`<${Empty} title=${`${what} is not available`}><p>${problem.message}</p><//>`;
}

function Hour({ hour }) {
  if (hour.problem) return html`<${Missing} problem=${hour.problem} what="The last hour" />`;
  if (hour.points.at.length < 2) return html`<${Empty} title="Collecting data"><p>Rates of gateway <span class="value">${hour.gateway}</span> appear here in a few seconds.</p><//>`;
  return html`<${Plots} of=${PLOTS} times=${hour.points.at} values=${hour.points} />`;
}

function History({ range: [name, length, step] }) {
  const load = useLoad((signal) => tried(history(length, step, signal)), [name], MINUTE_MS);
  return html`<${Loaded} from=${load} lines=${9}>${(found) => found.problem ? html`<${Missing} problem=${found.problem} what="The history" />`
    : found.times.length < 2 ? html`<${Empty} title="No history yet"><p>Gateways write it every five minutes while records are sent or read.</p><//>`
    : html`<${Plots} of=${LASTING} times=${found.times} values=${found.values} />`}<//>`;
}

const last = (values) => values?.findLast((one) => one !== null);

function Maintained({ of: { state, seen_at: seen } }) {
  if (seen) return html`${ago(seen)} <small>${state === "single" ? "a single round" : "its last step"}</small>`;
  return state === "never" ? html`never <small>start tidelog maintain: it merges small files and applies retention</small>` : "–";
}

function Numbers({ cluster, hour, known, topics }) {
  const zones = new Set(cluster.gateways.map((one) => one.zone).filter(Boolean));
  const now = (name) => last(hour.points?.[name]), day = known?.day?.values || {};
  return html`<${Figures} of=${[
    ["Records in", html`${perSecond(now("produced_records"))} <small>${perSecond(now("fetched_records"))} out</small>`],
    ["Bytes in", html`${bytesPerSecond(now("produced_bytes"))} <small>${bytesPerSecond(now("sent_bytes"))} out</small>`],
    ["Largest lag", known?.behind ? html`${count(known.behind.lag)} <small><${GroupLink} of=${known.behind.group} /></small>` : known?.day?.times.length ? "0" : "–"],
    ["Topics", html`${count(topics?.total?.topics)} ${topics?.total && html`<small>${plural(topics.total.records, "record")}</small>`}`],
    ["Stored", bytes(last(day.stored_bytes))],
    ["Cost per month", html`${money(clusterCost(day))} <small>storage and requests, at the rate of the last day</small>`],
    ["Maintenance", html`<${Maintained} of=${cluster.maintenance} />`],
    ["Gateways", html`${count(cluster.gateways.length)} <small>${zones.size > 0 ? `in ${plural(zones.size, "zone")}, ` : ""}version ${cluster.version}</small>`],
  ]} />`;
}

export default function Overview({ query }) {
  const seen = useLoad(look, [], 10_000);
  const known = useLoad(lasting, [], MINUTE_MS), topics = useLoad(summed, [], 20_000);
  const range = RANGES[query.range] ? query.range : "hour";
  return html`<div class="page">
    <div class="head"><h1>Overview</h1></div>
    <${Loaded} from=${seen} lines=${9}>${(data) => {
      const { cluster, hour } = data;
      return html`
        <section class="page" aria-label="State">
          <${Alarms} of=${amiss(data, topics.data?.damaged)} quiet=${data.alarms.problem ? "The store answers." : "The store answers, and there are no alarms."} />
          <${Numbers} cluster=${cluster} hour=${hour} known=${known.data} topics=${topics.data} />
        </section>
        <section class="page" aria-labelledby="activity">
          <div class="head"><h2 id="activity">Activity <small class="muted">${range === "hour" ? hour.gateway && html`of gateway <span class="value">${hour.gateway}</span>, which serves this page` : "of all gateways"}</small></h2>
            <div class="tabs" role="group" aria-label="Time">${Object.entries(RANGES).map(([name, [label]]) => html`<button key=${name} aria-pressed=${String(name === range)} onClick=${() => replaceQuery({ range: name === "hour" ? undefined : name })}>${label}</button>`)}</div></div>
          ${range === "hour" ? html`<${Hour} hour=${hour} />` : html`<${History} key=${range} range=${RANGES[range]} />`}
        </section>
        <section class="page" aria-labelledby="gateways" ref=${query.part === "gateways" ? there : null}>
          <h2 id="gateways">Gateways</h2>
          <${Table} label="Gateways" columns=${GATEWAYS.filter(({ name }) => !["zone", "kafka"].includes(name) || cluster.gateways.some((one) => one[name]))} rows=${cluster.gateways} rowKey=${(row) => row.id} sort=${["id", 1]} />
        </section>`;
    }}<//>
  </div>`;
}

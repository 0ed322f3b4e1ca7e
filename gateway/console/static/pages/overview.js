import {
  bytes, count, duration, Empty, Figures, get, html, Loaded, minor, number, perSecond, Plot, plural, since, Table,
  text, useLoad,
} from "../parts.js";

const PLOTS = [
  { title: "Records", format: perSecond, series: [["produced", "produced_records"], ["fetched", "fetched_records"]] },
  { title: "Bytes", format: (value) => `${bytes(value)}/s`, series: [["produced", "produced_bytes"], ["sent", "sent_bytes"]] },
  { title: "Acknowledgement", format: duration, series: [["p50", "acknowledgement_p50_ms"], ["p99", "acknowledgement_p99_ms"]] },
  { title: "Commit", format: duration, series: [["p50", "commit_p50_ms"], ["p99", "commit_p99_ms"]] },
];
const GATEWAYS = [
  text("id", "Gateway"),
  text("url", "URL"),
  text("zone", "Zone", minor),
  since("started_at", "Started", { number: false }),
  number("owned_topics", "Open topics"),
];

// A problem of a part is a part's: the others are shown.
const tried = (promise) => promise.catch((problem) => { if (problem.name === "AbortError") throw problem; return { problem }; });

async function look(signal) {
  const [cluster, hour, ready] = await Promise.all([
    get("/v1/cluster", { signal }), tried(get("/v1/activity", { signal })), tried(get("/readyz", { signal })),
  ]);
  return { cluster, hour, ready };
}

function alarms({ cluster, hour, ready }) {
  const found = (hour.alarms || []).map((one) => ({ bad: one.severity === "bad", said: one.said }));
  if (ready.problem) found.unshift({ bad: true, said: ready.problem.message });
  if (cluster.journals.held_back) found.push({ said: `No further topic can use a journal: ${cluster.journals.held_back}` });
  return found;
}

function Hour({ hour }) {
  if (hour.problem?.status === 403) return html`<${Empty} title="The last hour is shown to operators only"><p>You need the right Describe on the cluster.</p><//>`;
  if (hour.problem) return html`<${Empty} title="The last hour is not available"><p>${hour.problem.message}</p><//>`;
  const { points } = hour;
  if (points.at.length < 2) return html`<${Empty} title="Collecting data"><p>Rates of gateway <span class="value">${hour.gateway}</span> appear here in a few seconds.</p><//>`;
  return html`<div class="cards">${PLOTS.map((plot) => html`<div class="card" key=${plot.title}>
    <${Plot} title=${plot.title} format=${plot.format} times=${points.at} series=${plot.series.map(([label, name]) => ({ label, values: points[name] }))} />
  </div>`)}</div>`;
}

export default function Overview() {
  const seen = useLoad(look, [], 10000);
  return html`<div class="page">
    <div class="head"><h1>Overview</h1></div>
    <${Loaded} from=${seen} lines=${9}>${(data) => {
      const { cluster, hour } = data;
      const found = alarms(data);
      const zones = new Set(cluster.gateways.map((one) => one.zone).filter(Boolean));
      return html`
        <section class="page" aria-label="State">
          <ul class="alarms" aria-live="polite">${found.length
            ? found.map((one) => html`<li class=${one.bad ? "bad" : ""}>${one.said}</li>`)
            : html`<li class="ok">${hour.problem ? "The store answers." : "The store answers, and there are no alarms."}</li>`}</ul>
          <${Figures} of=${[
            ["Gateways", html`${count(cluster.gateways.length)} ${zones.size > 0 && html`<small>in ${plural(zones.size, "zone")}</small>`}`],
            ["Journals in use", html`${count(cluster.journals.in_use)} <small>${plural(cluster.journals.topics, "topic")}</small>`],
            ["Largest request", bytes(cluster.limits.request_bytes_max)],
            ["Version", html`${cluster.version} <small class="value">${cluster.store || ""}</small>`],
          ]} />
        </section>
        <section class="page" aria-labelledby="hour">
          <h2 id="hour">Last hour${hour.gateway && html` <small class="muted">of gateway <span class="value">${hour.gateway}</span>, which serves this page</small>`}</h2>
          <${Hour} hour=${hour} />
        </section>
        <section class="page" aria-labelledby="gateways">
          <h2 id="gateways">Gateways</h2>
          <${Table} label="Gateways" columns=${GATEWAYS.filter((one) => zones.size > 0 || one.name !== "zone")} rows=${cluster.gateways} rowKey=${(row) => row.id} sort=${["id", 1]} />
        </section>`;
    }}<//>
  </div>`;
}

import { Copied, Field, get, html, useLoad, useSession, useState } from "../parts.js";
import { programs } from "../programs.js";

// How programs read a topic: one at a time, chosen by its name.
export function Reading({ topic }) {
  const { who } = useSession();
  const [chosen, choose] = useState("curl");
  const { data: cluster } = useLoad((signal) => get("/v1/cluster", { signal }));
  const kafka = cluster?.gateways.find((one) => one.kafka)?.kafka;
  const found = programs({ origin: location.origin, topic: topic.name, uri: topic.table_uri, kafka, signed: Boolean(who) && who.authentication !== "none" });
  const [name, needs, text] = found.find(([each]) => each === chosen) || found[0];
  return html`<section class="card" aria-labelledby="reading"><h2 id="reading">Read this topic</h2>
    <div class="bar"><${Field} label="Program" value=${name} options=${found.map(([each]) => [each, each])} onChange=${(event) => choose(event.target.value)} />
      <p class="muted">${needs}</p></div>
    <${Copied} name=${name} text=${text} /></section>`;
}

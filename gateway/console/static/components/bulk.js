// What is done to several topics: each is asked for by itself, and what fails is told with its reason.
import { bytes, count, DeleteDialog, Field, FormDialog, get, html, Loaded, patch, path, plural, remove, toast, useLoad, useState } from "../parts.js";
import { CHOICES, DEFAULTS, losses, plain, records, size, UNSET } from "../topic.js";

const SHOWN = 20;
const sum = (topics, of) => topics.reduce((all, one) => all + of(one), 0);

// `onDone` gets the names of those that failed.
async function each(topics, change, onDone) {
  const errors = [];
  for (const topic of topics) await change(topic).catch((problem) => errors.push({ where: topic.name, what: problem.message }));
  onDone(errors.map((one) => one.where));
  if (errors.length) throw Object.assign(new Error(`${count(topics.length - errors.length)} of ${plural(topics.length, "topic")} are done. ${errors.length === 1 ? `${errors[0].where}: ${errors[0].what}` : "These failed:"}`), { errors });
}

const Some = ({ of, cell }) => html`<ul>${of.slice(0, SHOWN).map((one) => html`<li key=${one.name}><span class="value">${one.name}</span>: ${cell(one)}</li>`)}${of.length > SHOWN && html`<li>and ${count(of.length - SHOWN)} more</li>`}</ul>`;

function Delete({ topics, onClose, onDone }) {
  const pins = sum(topics, (one) => (one.pins || []).length);
  return html`<${DeleteDialog} what="topics" label="Confirmation" title=${`Delete ${plural(topics.length, "topic")}`} name=${plural(topics.length, "topic")} onClose=${onClose} onDelete=${async () => {
    await each(topics, (one) => remove(path`/v1/topics/${one.name}`, one.pins && { query: { delete_pins: true } }), onDone);
    toast(`${plural(topics.length, "topic")} deleted.`);
  }}><p>All of their ${plural(sum(topics, records), "record")} (${bytes(sum(topics, size))}) and the committed offsets of groups are deleted.${pins > 0 && ` ${plural(pins, "pinned version")} end with them.`}</p>
    <${Some} of=${topics} cell=${(one) => `${plural(records(one), "record")}, ${bytes(size(one))}`} /><//>`;
}

function Change({ topics, onClose, onDone }) {
  const [name, choose] = useState("retention.ms"), [warned, warn] = useState(null);
  const send = async ({ value }) => {
    const config = { [name]: value === "" ? null : plain(name, value.trim()) }, of = JSON.stringify(config);
    const lost = topics.map((one) => ({ name: one.name, said: losses(one, { config }).join(" ") })).filter((one) => one.said);
    if (lost.length && warned?.of !== of) return warn({ of, lost });
    await each(topics, (one) => patch(path`/v1/topics/${one.name}`, { config }), onDone);
    toast(`${name} is changed in ${plural(topics.length, "topic")}.`);
    onClose();
  };
  return html`<${FormDialog} title=${`Change ${plural(topics.length, "topic")}`} action=${warned ? "Change anyway" : "Change"} danger=${warned} onClose=${onClose} onSend=${send}>
    <${Field} label="Setting" value=${name} onChange=${(event) => { choose(event.target.value); warn(null); }} options=${[...Object.keys(DEFAULTS), ...UNSET]} />
    <${Field} key=${name} label="Value" name="value" options=${CHOICES[name] && ["", ...CHOICES[name]].map((one) => [one, one || "default"])} hint=${`7d, 1h30m, 1GiB; empty: the default${name in DEFAULTS ? `, ${DEFAULTS[name]}` : ""}`} />
    ${warned && html`<div class="problem" role="alert"><p>This loses records of ${plural(warned.lost.length, "topic")}:</p><${Some} of=${warned.lost} cell=${(one) => one.said} /></div>`}<//>`;
}

const DIALOGS = { delete: Delete, change: Change };

export function Bulk({ names, onChoose, onDone }) {
  const [asked, ask] = useState(null);
  const load = useLoad((signal) => asked ? Promise.all(names.map((name) => get(path`/v1/topics/${name}`, { signal }))) : [], [asked]);
  const close = () => ask(null);
  return html`<div class="bar" role="group" aria-label="Selected topics"><strong>${plural(names.length, "topic")} selected</strong>
    <button onClick=${() => ask("change")}>Change a setting…</button><button onClick=${() => ask("delete")}>Delete…</button><button class="quiet" onClick=${() => onChoose([])}>Clear selection</button></div>
    ${asked && html`<${Loaded} from=${load}>${(topics) => topics.length > 0 && html`<${DIALOGS[asked]} topics=${topics} onClose=${close} onDone=${(failed) => { onChoose(failed); onDone(); }} />`}<//>`}`;
}

import {
  all, DeleteDialog, Empty, Escaped, Field, Figures, Form, get, go, html, link, Loaded, number, plural, post, ProblemBox, put, remove, Table, text,
  toast, TopicLink, unsorted, useChanges, useLoad, useState,
} from "../parts.js";
import { pretty } from "../record.js";
import { Changes } from "../components/json_view.js";
import { diff, registry, SUBJECT_OF } from "../schemas.js";

const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];
const TOPICS_MAX = 1000, VERSIONS_SHOWN = 50, TEXT_SHOWN = 100000;
const shown = (text) => (pretty(text) || text).slice(0, TEXT_SHOWN);

const versions = (chosen, choose) => [
  number("version", "Version", { ...unsorted, number: false, cell: ({ version }) => html`<button class="sort row-link" aria-pressed=${String(version === chosen)} onClick=${() => choose(version)}>${version}</button>` }),
  number("id", "Id", unsorted),
  text("type", "Type", { ...unsorted, value: (row) => row.schemaType || "AVRO", cell: (row) => row.schemaType || "AVRO" }),
];
const USED = [
  text("name", "Topic", { cell: (row) => html`<${TopicLink} of=${row.name} />` }),
  text("column", "Column", { cell: (row) => html`<code>${row.column}</code>` }),
];

async function described(subject, signal) {
  const numbers = await get(registry`/subjects/${subject}/versions`, { signal });
  const [found, level, common, topics] = await Promise.all([
    Promise.all(numbers.slice(-VERSIONS_SHOWN).map((number) => get(registry`/subjects/${subject}/versions/${number}`, { signal }))),
    get(registry`/config/${subject}`, { query: { defaultToGlobal: true }, signal }).catch(() => null), get("/registry/config", { signal }).catch(() => null),
    all("/v1/topics", "topics", { query: { max_age_ms: 10000 }, most: TOPICS_MAX, signal }),
  ]);
  const referring = await get(registry`/subjects/${subject}/versions/${numbers.at(-1)}/referencedby`, { signal }).catch(() => []);
  const used = topics.entries.flatMap((topic) => Object.entries(SUBJECT_OF).filter(([name]) => topic.config[name] === subject).map(([, column]) => ({ name: topic.name, column })));
  return { numbers, found: found.reverse(), level: level?.compatibilityLevel, common: common?.compatibilityLevel, used, more: topics.more, referring };
}

function Version({ of: one, before }) {
  const [form, choose] = useState("Schema");
  const lines = before && form === "Changes" && diff(shown(before.schema), shown(one.schema));
  return html`<div class="tabs" role="group" aria-label="Show">${["Schema", ...(before ? ["Changes"] : [])].map((name) => html`<button aria-pressed=${String(name === form)} onClick=${() => choose(name)}>${name}</button>`)}</div>
    ${form === "Schema" || !before ? html`<pre class="box" tabindex="0" aria-label="Schema">${shown(one.schema)}</pre>` : lines ? html`<${Changes} of=${lines} />` : html`<p>The schemas are too long to be compared here.</p>`}
    ${one.references?.length > 0 && html`<p>Refers to ${one.references.map((each, i) => html`${i > 0 && ", "}<a class="value" href=${link`/schemas/${each.subject}`}><${Escaped} of=${each.subject} /></a> version ${each.version} as <span class="value"><${Escaped} of=${each.name} /></span>`)}</p>`}`;
}

function NewVersion({ subject, newest, mayWrite, onDone }) {
  const [checked, check] = useState(null);
  const send = async ({ schema, act }) => {
    check(null);
    const body = { schema, schemaType: newest.schemaType || "AVRO", references: newest.references || [] };
    if (act === "register") {
      const { id } = await post(registry`/subjects/${subject}/versions`, body);
      toast(`Subject ${subject} has the schema, id ${id}.`);
      onDone();
      return;
    }
    check(await post(registry`/compatibility/subjects/${subject}/versions`, body, { query: { verbose: true } }));
  };
  return html`<section class="card" aria-labelledby="new"><h2 id="new">New version</h2>
    <${Form} action="Check" onSend=${send} more=${mayWrite && html`<button name="act" value="register">Register</button>`}>
      <${Field} label="Schema of the new version" name="schema" rows="10" required value=${shown(newest.schema)} /><//>
    <div role="status">${checked && (checked.is_compatible
      ? html`<p class="ok">It may be registered.</p>`
      : html`<p class="bad">It may not be registered:</p><ul>${(checked.messages || []).map((one) => html`<li class="value small">${one}</li>`)}</ul>`)}</div>
  </section>`;
}

function Compatibility({ subject, level: now, common, fixed, onDone }) {
  const send = async ({ level }) => {
    if (level) await put(registry`/config/${subject}`, { compatibility: level });
    else await remove(registry`/config/${subject}`).catch((problem) => { if (problem.status !== 404) throw problem; });
    toast("Compatibility changed.");
    onDone();
  };
  return html`<section class="card" aria-labelledby="level"><h2 id="level">Compatibility</h2>
    <${Form} action="Save" disabled=${fixed} onSend=${send}>
      <${Field} label="Level" name="level" value=${now === common ? "" : now} disabled=${fixed} options=${[["", `as all others${common ? `: ${common}` : ""}`], ...LEVELS]}
        hint="What a new version must be compatible with" /><//></section>`;
}

export default function Schema({ params: { subject } }) {
  const [chosen, choose] = useState(null);
  const [deleting, ask] = useState(false);
  const [changes, note] = useState(0);
  const [mayWrite, mayAlter, mayDelete] = useChanges(["Write", "subject", subject], ["Alter", "subject", subject], ["Delete", "subject", subject]);
  const load = useLoad((signal) => described(subject, signal), [subject]);
  const done = () => load.reload().then(() => { choose(null); note(changes + 1); });
  return html`<div class="page">
    <div class="head"><div><p class="crumbs"><a href="#/schemas">Schemas</a></p><h1 class="value"><${Escaped} of=${subject} /></h1></div>
      <div class="actions">${mayDelete && load.data && html`<button onClick=${() => ask(true)}>Delete…</button>`}</div></div>
    <${Loaded} from=${load} lines=${12}>${({ numbers, found, level, common, used, more, referring }) => {
      const [newest] = found, at = found.findIndex((one) => one.version === (chosen ?? newest.version));
      return html`
        <${Figures} of=${[["Newest version", newest.version], ["Id", newest.id], ["Type", newest.schemaType || "AVRO"], ["Compatibility", level || "–"], ["Topics", used.length]]} />
        <section class="card" aria-labelledby="version"><h2 id="version">Version ${found[at].version}</h2><${Version} key=${found[at].version} of=${found[at]} before=${found[at + 1]} /></section>
        <section class="card" aria-labelledby="versions"><h2 id="versions">Versions</h2>
          <${Table} label="Versions" columns=${versions(found[at].version, choose)} rows=${found} rowKey=${(row) => row.version} />
          ${numbers.length > found.length && html`<p class="muted">${plural(numbers.length - found.length, "older version is", "older versions are")} not shown.</p>`}</section>
        <section class="card" aria-labelledby="used"><h2 id="used">Topics</h2>
          <${Table} label="Topics of this schema" columns=${USED} rows=${used} rowKey=${(row) => `${row.column} ${row.name}`} sort=${["name", 1]}
            empty=${html`<${Empty} title="No topic has this schema"><p>Create one with it, or set <code>value.schema</code> of a topic.</p><//>`} />
          ${more && html`<p class="muted">Looked for in the first ${TOPICS_MAX} topics.</p>`}
          ${referring.length > 0 && html`<p>The schemas with these ids refer to the newest version: ${referring.join(", ")}</p>`}</section>
        <${NewVersion} key=${`new ${changes}`} subject=${subject} newest=${newest} mayWrite=${mayWrite} onDone=${done} />
        <${Compatibility} key=${`level ${changes}`} subject=${subject} level=${level} common=${common} fixed=${!mayAlter} onDone=${done} />
        ${deleting && html`<${DeleteDialog} what="subject" name=${subject} onClose=${() => ask(false)} onDelete=${async () => {
          await remove(registry`/subjects/${subject}`);
          toast(`Subject ${subject} is deleted.`);
          go("#/schemas");
        }}><p>It is in no list any more. Values that were written with its versions can still be read. ${used.length > 0 && `${plural(used.length, "topic")} can't take records without it.`}</p><//>`}`;
    }}<//>
  </div>`;
}

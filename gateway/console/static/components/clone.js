// Topics with the same records at the same offsets: those that were made, what each stores, and one more.
import {
  bytes, Field, FormDialog, get, go, html, link, Loaded, minor, number, path, post, Table, text, toast, TopicLink, useChanges, useLoad, useState,
} from "../parts.js";

const stored = (name, label, more) => number(name, label, { cell: (row) => bytes(row[name]), ...more });
const COLUMNS = [
  text("name", "Clone", { cell: (row) => html`<${TopicLink} of=${row.name} />` }),
  stored("size_bytes", "Stored", minor),
  stored("also_in_source_bytes", "Also in the source"),
  stored("only_in_clone_bytes", "Only in the clone"),
  stored("own_bytes", "Its own"),
];

export function Clones({ topic }) {
  const [asking, ask] = useState(false);
  const [mayRead, mayCreate] = useChanges(["Read", "topic", topic.name], ["Create", "topic", `${topic.name}-clone`]);
  const load = useLoad((signal) => get(path`/v1/topics/${topic.name}/clones`, { signal }), [topic.name]);
  const send = async ({ name, pin }) => {
    let made;
    do made = await post(path`/v1/topics/${topic.name}:clone`, { name: name.trim(), ...pin && { pin } }); while (!made.topic_id);
    toast(`Topic ${name.trim()} is a clone of ${topic.name}.`);
    go(link`/topics/${name.trim()}`);
  };
  return html`<section class="card" aria-labelledby="clones"><div class="head"><h2 id="clones">Clones</h2>${mayRead && mayCreate && html`<button onClick=${() => ask(true)}>Clone…</button>`}</div>
    <p class="muted">Bytes of the clone’s table: copies of files that this topic’s table has, too, copies of files that only the clone keeps, and files written for the clone. A directory stores a file that both have once, a bucket twice.</p>
    <${Loaded} from=${load}>${({ clones }) => html`<${Table} label="Clones" columns=${COLUMNS} rows=${clones} rowKey=${(row) => row.topic_id} sort=${["name", 1]} empty="No clones" />`}<//>
    ${asking && html`<${FormDialog} title="Clone topic" action="Clone" onClose=${() => ask(false)} onSend=${send}>
      <p>The clone has the same records at the same offsets, and files of its own. Groups and pins stay with this topic.</p>
      <${Field} label="Name" name="name" required value=${`${topic.name}-clone`} />
      <${Field} label="Version" name="pin" options=${[["", "now"], ...(topic.pins || []).map((one) => [one.name ?? one, `pin ${one.name ?? one}`])]} /><//>`}</section>`;
}

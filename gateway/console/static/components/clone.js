// Another topic with the same records at the same offsets.
import { Field, FormDialog, go, html, link, path, post, toast, useChanges, useState } from "../parts.js";

export function Clone({ topic }) {
  const [asking, ask] = useState(false);
  const [mayRead, mayCreate] = useChanges(["Read", "topic", topic.name], ["Create", "topic", `${topic.name}-clone`]);
  const send = async ({ name, pin }) => {
    let made;
    do made = await post(path`/v1/topics/${topic.name}:clone`, { name: name.trim(), ...pin && { pin } }); while (!made.topic_id);
    toast(`Topic ${name.trim()} is a clone of ${topic.name}.`);
    go(link`/topics/${name.trim()}`);
  };
  return html`${mayRead && mayCreate && html`<div class="actions"><button onClick=${() => ask(true)}>Clone…</button></div>`}
    ${asking && html`<${FormDialog} title="Clone topic" action="Clone" onClose=${() => ask(false)} onSend=${send}>
      <p>The clone has the same records at the same offsets, and files of its own. Groups and pins stay with this topic.</p>
      <${Field} label="Name" name="name" required value=${`${topic.name}-clone`} />
      <${Field} label="Version" name="pin" options=${[["", "now"], ...(topic.pins || []).map((one) => [one.name ?? one, `pin ${one.name ?? one}`])]} /><//>`}`;
}

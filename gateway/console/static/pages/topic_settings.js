import { bytes, duration, Field, Form, FormDialog, html, patch, path, toast, useState } from "../parts.js";
import { SubjectField } from "../components/subject_field.js";
import { SUBJECT_OF } from "../schemas.js";
import { CHOICES, DEFAULTS, losses, plain, UNSET } from "../topic.js";

export function Settings({ topic, mayAlter, onChange }) {
  const [doubtful, doubt] = useState(null);
  const [changes, noteChange] = useState(0);
  const fixed = !mayAlter;
  const send = async (values) => {
    const config = {};
    for (const [name, value] of Object.entries(values))
      if (name !== "partitions" && value !== String(topic.config[name] ?? "")) config[name] = value === "" ? null : plain(name, value.trim());
    const change = { config };
    if (values.partitions && Number(values.partitions) !== topic.partition_count) change.partition_count = Number(values.partitions);
    const lost = losses(topic, change);
    return lost.length ? doubt({ change, lost }) : apply(change);
  };
  const apply = async (change) => {
    await patch(path`/v1/topics/${topic.name}`, change);
    toast("Settings changed.");
    doubt(null);
    await onChange();
    noteChange(changes + 1);
  };
  const names = [...new Set([...Object.keys(DEFAULTS), ...UNSET, ...Object.keys(topic.config)])];
  const hint = (name, value) => `${name.endsWith(".ms") && value > 0 ? `${duration(value)}; ` : name.endsWith("bytes") && value > 0 ? `${bytes(value)}; ` : ""}default ${DEFAULTS[name] ?? ({ "data.on.error": "reject", "data.backfill": "off" })[name] ?? "none"}${value !== "" && String(value) !== String(DEFAULTS[name] ?? "") ? ", changed" : ""}`;
  const fields = names.map((name) => {
    const value = topic.config[name] ?? "";
    const choices = UNSET.includes(name) && CHOICES[name] ? ["", ...CHOICES[name]] : CHOICES[name];
    return html`<${name in SUBJECT_OF ? SubjectField : Field} key=${name} label=${name} name=${name} value=${value} options=${choices?.map((one) => [one, one || (UNSET.includes(name) ? "default" : "none")])} disabled=${fixed} hint=${hint(name, value)} />`;
  });
  return html`<section class="card" aria-labelledby="settings"><h2 id="settings">Settings</h2>
    <${Form} key=${changes} action="Save" disabled=${fixed} onSend=${send}>
      <div class="fields">${fields}<${Field} label="Partitions" name="partitions" type="number" min=${topic.partition_count} max="10000" value=${topic.partition_count} disabled=${fixed} hint="Can only be increased" /></div>
      <p class="muted">Units: 7d, 1h30m, 1GiB. An empty field resets to the default.</p><//>
    ${doubtful && html`<${FormDialog} title="Change settings" action="Change" danger onClose=${() => doubt(null)} onSend=${() => apply(doubtful.change)}>
      ${doubtful.lost.map((one) => html`<p>${one}</p>`)}<//>`}
  </section>`;
}


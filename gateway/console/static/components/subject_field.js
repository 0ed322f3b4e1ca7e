import { html, useState } from "../vendored/preact.js";
import { useLoad } from "../load.js";
import { subjects } from "../schemas.js";
import { Field } from "./form.js";

// A field for a subject, which offers those of the registry.
export function SubjectField(field) {
  const { data } = useLoad((signal) => subjects(signal).catch(() => []));
  const [id] = useState(() => `subjects-${field.name}`);
  return html`<div><${Field} list=${id} ...${field} /><datalist id=${id}>${(data || []).map((one) => html`<option value=${one}></option>`)}</datalist></div>`;
}

import { html } from "../vendored/preact.js";
import { ago, count, time } from "../format.js";
import { preview } from "../record.js";
import { link } from "../router.js";
import { Escaped } from "./escaped.js";

export const Null = () => html`<span class="tag">null</span>`;
export const Blank = () => html`<span class="tag">empty</span>`;
export const Value = ({ of }) => html`<span class="value"><${Escaped} of=${of ?? "–"} /></span>`;
export const TopicLink = ({ of }) => html`<a class="value" href=${link`/topics/${of}`}><${Escaped} of=${of} /></a>`;
export const GroupLink = ({ of }) => html`<a class="value" href=${link`/groups/${of}`}><${Escaped} of=${of} /></a>`;
// A member of a record on one line; what is null or empty says so.
export function Member({ of, name = "value", most }) {
  const shown = preview(of, name, most);
  return shown === null ? html`<${Null} />` : shown === "" ? html`<${Blank} />` : html`<${Escaped} of=${shown} />`;
}
const column = (shown) => (name, label, more = {}) => {
  const value = more.value || ((row) => row[name]);
  return { name, label, value, cell: (row) => shown(value(row)), ...more };
};
export const text = column((value) => html`<${Value} of=${value} />`);
export const number = (name, label, more) => column(count)(name, label, { number: true, ...more });
export const since = (name, label, more) => column((ms) => html`<span title=${time(ms)}>${ago(ms)}</span>`)(name, label, { number: true, ...more });
export const Figures = ({ of }) => html`<dl class="card figures">${of.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
export const minor = { minor: true }, unsorted = { value: null };

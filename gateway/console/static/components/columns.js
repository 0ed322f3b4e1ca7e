import { html } from "../vendored/preact.js";
import { ago, count, time } from "../format.js";
import { link } from "../router.js";

export const Null = () => html`<span class="tag">null</span>`;
export const Value = ({ of }) => html`<span class="value">${of ?? "–"}</span>`;
export const TopicLink = ({ of }) => html`<a class="value" href=${link`/topics/${of}`}>${of}</a>`;
export const GroupLink = ({ of }) => html`<a class="value" href=${link`/groups/${of}`}>${of}</a>`;
const column = (shown) => (name, label, more = {}) => {
  const value = more.value || ((row) => row[name]);
  return { name, label, value, cell: (row) => shown(value(row)), ...more };
};
export const text = column((value) => html`<${Value} of=${value} />`);
export const number = (name, label, more) => column(count)(name, label, { number: true, ...more });
export const since = (name, label, more) => column((ms) => html`<span title=${time(ms)}>${ago(ms)}</span>`)(name, label, { number: true, ...more });
export const Figures = ({ of }) => html`<dl class="card figures">${of.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
export const minor = { minor: true }, unsorted = { value: null };

import { html, useState } from "../vendored/preact.js";
import { ProblemBox } from "./states.js";

let made = 0;

export const words = (text) => text.split(/[\s,]+/).filter(Boolean);

// `value`: with onInput it is what the field shows; without, what it begins with, and what is typed stays when the form is drawn anew.
// `options`: of a select, texts or [value, text]. Anything else goes to the input: name, type, value, onInput, required, …
export function Field({ label, hint, options, rows, class: wide, ...input }) {
  const [id] = useState(() => `field-${++made}`);
  const told = hint ? `${id}-hint` : undefined;
  const { value, ...others } = input;
  const held = input.onInput ? { value } : { defaultValue: value };
  const common = { id, "aria-describedby": told, autocomplete: "off", spellcheck: false, ...others, ...held };
  const control = options
    ? html`<select ...${common}>${options.map((one) => { const [value, text] = [one].flat(); return html`<option value=${value} selected=${String(value) === String(input.value)}>${text ?? value}</option>`; })}</select>`
    : rows ? html`<textarea rows=${rows} ...${common}></textarea>` : html`<input ...${common} />`;
  if (input.type === "checkbox")
    return html`<div class="field check">${control}<label for=${id}>${label}</label>${hint && html`<small id=${told}>${hint}</small>`}</div>`;
  return html`<div class=${`field ${wide || ""}`}><label for=${id}>${label}</label>${control}${hint && html`<small id=${told}>${hint}</small>`}</div>`;
}

// onSend(values) may throw a Problem; `values` are the fields by name, as text, and the pressed button's if it has a name (`more`
// buttons). While it is under way the button waits.
export function Form({ onSend, action, danger, disabled, onCancel, more, children, class: kind }) {
  const [state, set] = useState({ sending: false, problem: null });
  const send = async (event) => {
    event.preventDefault();
    if (state.sending) return;
    const values = Object.fromEntries(new FormData(event.target, event.submitter));
    set({ sending: true, problem: null });
    try {
      await onSend(values, event.target);
      set({ sending: false, problem: null });
    } catch (problem) {
      set({ sending: false, problem });
    }
  };
  return html`<form class=${kind} aria-label=${action} onSubmit=${send}>
    ${children}
    ${state.problem && html`<${ProblemBox} problem=${state.problem} />`}
    <div class="actions">
      <button class=${danger ? "danger" : "primary"} disabled=${disabled || state.sending}>${action}</button>${more}
      ${onCancel && html`<button type="button" onClick=${onCancel}>Cancel</button>`}
    </div>
  </form>`;
}

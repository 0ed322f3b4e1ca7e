// Modal dialogs: the browser's own <dialog> keeps the focus inside, closes on Escape, and gives the focus back.

import { html, useLayoutEffect, useRef, useState } from "../vendored/preact.js";
import { Escaped, escaped } from "./escaped.js";
import { Field, Form } from "./form.js";

export function Dialog({ title, onClose, wide, children }) {
  const element = useRef();
  useLayoutEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onClose=${onClose}>
    <div class="dialog-head"><h2 id="dialog-title">${title}</h2><button class="quiet" aria-label="Close" onClick=${() => element.current.close()}>×</button></div>
    ${children}
  </dialog>`;
}

// A dialog that is one form: `title`, and what Form takes.
export const FormDialog = ({ title, wide, onClose, children, ...form }) => html`<${Dialog} title=${title} wide=${wide} onClose=${onClose}>
  <${Form} ...${form} onCancel=${onClose}>${children}<//><//>`;

// Asks for the name of what goes for good. `what`: "topic", "group"; onDelete(values) may throw a Problem, which is shown here.
export function DeleteDialog({ what, name, onDelete, onClose, children, action = "Delete", title = `${action} ${what}`, label = `Name of the ${what}` }) {
  const [typed, type] = useState("");
  return html`<${FormDialog} title=${title} onClose=${onClose} action=${action} danger disabled=${typed !== name && typed !== escaped(name)} onSend=${async (values) => { await onDelete(values); onClose(); }}>
    ${children}
    <p>This can't be undone. Type <bdi><strong class="value"><${Escaped} of=${name} /></strong></bdi> to confirm.</p>
    <${Field} label=${label} name="name" value=${typed} onInput=${(event) => type(event.target.value)} />
  <//>`;
}

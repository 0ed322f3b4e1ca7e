// Short messages at the edge: what was done. What went wrong stays where it happened; a toast is read out and goes by itself.

import { html, useEffect, useState } from "../vendored/preact.js";

const SHOWN_MS = 6000;
let show = () => {};
let made = 0;

export const toast = (text) => show({ id: ++made, text });

export function Toasts() {
  const [toasts, set] = useState([]);
  useEffect(() => {
    const drop = (id) => set((all) => all.filter((one) => one.id !== id));
    show = (one) => { set((all) => [...all.slice(-3), one]); setTimeout(() => drop(one.id), SHOWN_MS); };
    return () => { show = () => {}; };
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map((one) => html`<p key=${one.id}>${one.text}</p>`)}</div>`;
}

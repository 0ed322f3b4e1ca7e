import { html } from "../vendored/preact.js";
import { toast } from "./toasts.js";

// Lets the browser save a file.
export function saved(blob, download) {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href, download }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}

// A text to take along, with its name and a button that copies it.
export const Copied = ({ name, text }) => html`<section><div class="head"><h3>${name}</h3><button class="quiet" aria-label=${`Copy ${name}`} onClick=${() => navigator.clipboard?.writeText(text).then(() => toast("Copied."))}>Copy</button></div><pre class="box" tabindex="0" aria-label=${name}>${text}</pre></section>`;

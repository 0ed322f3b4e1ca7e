// Text of others: what would turn, hide or end a line stands there as its escape, such as \u202e. Line feeds and tabs stay.

import { html } from "../vendored/preact.js";

const ODD = /([\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\r(?!\n))/;
const escape = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;

export const escaped = (text) => String(text).split(ODD).map((part, i) => i % 2 ? escape(part) : part).join("");

export function Escaped({ of }) {
  const parts = String(of).split(ODD);
  return parts.length === 1 ? parts[0] : parts.map((part, i) => i % 2 ? html`<span class="escape" title="A control character">${escape(part)}</span>` : part);
}

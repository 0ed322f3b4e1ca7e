// Lines of text that fold where a line opens an object or an array, and what two texts differ in.

import { html, useState } from "../vendored/preact.js";
import { Escaped } from "./escaped.js";

const FOLDED_LINES_MAX = 3000;

// For each line that ends in { or [: the line that closes it. `lines`: as `pretty` makes them.
function closings(lines) {
  const open = [], found = new Map();
  lines.forEach((line, i) => {
    if (/^\s*[}\]]/.test(line)) found.set(open.pop(), i);
    if (/[{[]$/.test(line)) open.push(i);
  });
  return found;
}

export function FoldingJson({ of, label }) {
  const lines = of.split("\n");
  const [folded, fold] = useState(new Set());
  const found = lines.length > 1 && lines.length <= FOLDED_LINES_MAX ? closings(lines) : new Map();
  const turn = (i) => { const next = new Set(folded); if (!next.delete(i)) next.add(i); fold(next); };
  const shown = [];
  for (let i = 0, plain = []; i <= lines.length; i += 1) {
    if (i < lines.length && !found.has(i)) { plain.push(lines[i]); continue; }
    if (plain.length) shown.push(html`<${Escaped} key=${`t${i}`} of=${plain.join("\n") + (i < lines.length ? "\n" : "")} />`);
    plain = [];
    if (i === lines.length) break;
    const shut = folded.has(i);
    shown.push(html`<button key=${i} class="fold" aria-expanded=${String(!shut)} aria-label=${`Line ${i + 1}`} onClick=${() => turn(i)}></button>`, html`<${Escaped} key=${`l${i}`} of=${lines[i]} />`);
    if (shut) { i = found.get(i); shown.push(" … ", lines[i].trim()); }
    if (i < lines.length - 1) shown.push("\n");
  }
  return html`<pre class=${`box ${found.size ? "folding" : ""}`} tabindex="0" aria-label=${label}>${shown}</pre>`;
}

// `of`: lines as `diff` finds them.
export const Changes = ({ of }) => html`<pre class="box" tabindex="0" aria-label="Changes">${of.map(([sign, line]) => html`<span class=${sign === "+" ? "ok" : sign === "-" ? "bad" : "muted"}>${sign} <${Escaped} of=${line} />${"\n"}</span>`)}</pre>`;

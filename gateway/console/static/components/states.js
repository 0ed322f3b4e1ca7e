// What stands where data is not. Each keeps the room, so that nothing jumps when data comes.

import { html } from "../vendored/preact.js";

export const Loading = ({ lines = 3 }) => html`<div class="loading" role="status" aria-label="Loading">
  ${Array.from({ length: lines }, (_, i) => html`<span key=${i}></span>`)}</div>`;

export const Empty = ({ title, children }) => html`<div class="empty"><p><strong>${title}</strong></p>${children}</div>`;

export function ProblemBox({ problem, retry }) {
  return html`<div class="problem" role="alert">
    <p><strong>${problem.status === 403 ? "Not allowed" : problem.status === 404 ? "Not found" : "Failed"}</strong></p>
    <p>${problem.message}</p>
    ${problem.errors?.length > 1 && html`<ul>${problem.errors.map((one) => html`<li><code>${one.where}</code> ${one.what}</li>`)}</ul>`}
    ${problem.advice && html`<p>${problem.advice}</p>`}
    ${problem.code && html`<p class="muted"><code>${problem.code}</code></p>`}
    ${retry && html`<button onClick=${retry}>Retry</button>`}
  </div>`;
}

// The state of a useLoad, or what `children` (a function of the data) makes of it. Old data stays beside a problem.
export function Loaded({ from, lines, children }) {
  const { data, problem, reload } = from;
  if (data === undefined) return problem ? html`<${ProblemBox} problem=${problem} retry=${reload} />` : html`<${Loading} lines=${lines} />`;
  return html`${problem && html`<${ProblemBox} problem=${problem} retry=${reload} />`}${children(data)}`;
}

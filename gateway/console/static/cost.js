// $ a month, by the prices of docs/cost.md.

import { size } from "./topic.js";

const STORED_GB = 0.023, PUT_A_SECOND = 13.14, GET_A_SECOND = 1.0512;

// A topic: storage, and two PUTs for each commit of its table, as many as come now.
export const cost = (topic, commits) => ({ storage: (size(topic) / 1e9) * STORED_GB, puts: commits === undefined ? undefined : 2 * commits * PUT_A_SECOND });

// The cluster: what it stored last, and its requests a second on average since the first step that is known.
export function clusterCost({ stored_bytes: stored, ...requests }) {
  if (!stored?.length) return undefined;
  const mean = (name) => { const known = requests[name].slice(requests[name].findIndex((one) => one !== null)); return known.reduce((sum, one) => sum + one, 0) / known.length; };
  const rate = (...names) => names.reduce((sum, name) => sum + mean(name), 0);
  return ((stored.findLast((one) => one !== null) || 0) / 1e9) * STORED_GB + rate("store_puts", "store_lists") * PUT_A_SECOND + rate("store_gets", "store_heads") * GET_A_SECOND;
}

// What comes to a topic from now on. One partition is an event stream; several are one long poll after the other.
// Nothing is left out: the next records are asked for behind those that came. What this page can't keep up with waits in the log.

import { get, path, post, Problem } from "./api.js";
import { stream } from "./stream.js";

// positions: Map of partition -> next offset. onRecords(records) for each batch; onState(a word or a Problem). Returns how to end.
export function tail(topic, positions, filter, onRecords, onState) {
  if (positions.size === 1) {
    const [[partition, offset]] = positions;
    return stream(path`/v1/topics/${topic}/partitions/${partition}/records`, {
      query: { offset, header: filter.headers, key: filter.key, value_contains: filter.value_contains },
      onEvent: ({ event, id, data }) => {
        if (id !== null) positions.set(partition, Number(id));
        if (event === "record") onRecords([JSON.parse(data)]);
      },
      onState,
    });
  }
  const mine = new AbortController();
  follow(topic, positions, filter, onRecords, onState, mine.signal).catch((problem) => mine.signal.aborted || onState(problem));
  return () => mine.abort();
}

async function follow(topic, positions, filter, onRecords, onState, signal) {
  onState("open");
  const given = Object.keys(filter).length ? { filter } : {};
  while (!signal.aborted) {
    const partitions = [...positions].map(([partition, offset]) => ({ topic, partition, offset, ...given }));
    const found = await post("/v1/fetch", { partitions, max_records: 2000, max_bytes: 4 << 20, max_wait_ms: 20000 }, { signal });
    const records = [];
    for (const one of found.partitions) {
      if (one.error) throw new Problem(0, one.error);
      positions.set(one.partition, one.next_offset);
      records.push(...one.records);
    }
    records.sort((a, b) => a.timestamp - b.timestamp);
    if (records.length) onRecords(records);
  }
}

// How many records are in the log and not here yet, of all partitions.
export async function behind(topic, positions) {
  const found = await get(path`/v1/topics/${topic}`);
  return found.partitions.reduce((sum, one) => sum + (positions.has(one.partition) ? Math.max(0, one.high_watermark - positions.get(one.partition)) : 0), 0);
}

// What comes to a topic from now on: one long poll after the other, however many partitions. Nothing is left out: the next records
// are asked for behind those that came. What this page can't keep up with waits in the log.

import { get, path, post, Problem } from "./api.js";

// positions: Map of partition -> next offset. onRecords(records) for each batch, which is awaited; onState: "open", "waiting", or a Problem that ends it.
// Returns how to end.
export function tail(topic, positions, filter, onRecords, onState) {
  const mine = new AbortController();
  follow(topic, positions, filter, onRecords, onState, mine.signal).catch((problem) => mine.signal.aborted || onState(problem));
  return () => mine.abort();
}

async function follow(topic, positions, filter, onRecords, onState, signal) {
  const given = Object.keys(filter).length ? { filter } : {};
  while (!signal.aborted) {
    try {
      const partitions = [...positions].map(([partition, offset]) => ({ topic, partition, offset, ...given }));
      const found = await post("/v1/fetch", { partitions, max_records: 2000, max_bytes: 4 << 20, max_wait_ms: 20000 }, { signal });
      const failed = found.partitions.find((one) => one.error);
      if (failed) throw new Problem(0, failed.error);
      onState("open");
      for (const one of found.partitions) positions.set(one.partition, one.next_offset);
      const records = found.partitions.flatMap((one) => one.records).sort((a, b) => a.timestamp - b.timestamp);
      if (records.length) await onRecords(records);
    } catch (problem) {
      if (signal.aborted || !problem.body?.retryable) throw problem;
      onState("waiting");
      await new Promise((wake) => setTimeout(wake, 1000));
    }
  }
}

// How many records are in the log and not here yet, of all partitions.
export async function behind(topic, positions) {
  const found = await get(path`/v1/topics/${topic}`);
  return found.partitions.reduce((sum, one) => sum + (positions.has(one.partition) ? Math.max(0, one.high_watermark - positions.get(one.partition)) : 0), 0);
}

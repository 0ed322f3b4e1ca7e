// What a topic's description adds up to, for the list, the page of a topic, and what it costs.

export const records = (topic) => topic.partitions.reduce((sum, one) => sum + one.high_watermark - one.log_start_offset, 0);
export const size = (topic) => topic.partitions.reduce((sum, one) => sum + one.size_bytes, 0);
export const produced = (topic) => topic.partitions.reduce((sum, one) => sum + one.high_watermark, 0);

// Records and commits a second between two looks, by name; a topic made anew, or seen once, has none. `looks`: the last ones.
export function rates(looks, topics) {
  const now = performance.now();
  return new Map(topics.map((topic) => {
    const seen = { at: now, total: produced(topic), version: topic.table_version, created: topic.created_at };
    const last = looks.get(topic.name);
    if (last && last.created === seen.created && now > last.at) {
      const perSecond = 1000 / (now - last.at);
      seen.rate = (seen.total - last.total) * perSecond;
      seen.commits = (seen.version - last.version) * perSecond;
    }
    return [topic.name, seen];
  }));
}

// $ a month, by the prices of docs/cost.md: storage, and two PUTs for each commit of its table, as many as come now.
const STORED_GB = 0.023, PUT_A_SECOND = 13.14;
export const cost = (topic, commits) => ({ storage: (size(topic) / 1e9) * STORED_GB, puts: commits === undefined ? undefined : 2 * commits * PUT_A_SECOND });

// As the gateway has them; a test holds them against it.
export const DEFAULTS = {
  "retention.ms": 604800000, "retention.bytes": -1, "cleanup.policy": "delete", "delete.retention.ms": 86400000,
  "min.compaction.lag.ms": 0, "max.message.bytes": 1048576, "flush.ms": 250, "flush.bytes": 8388608,
  "compression.type": "zstd", "message.timestamp.type": "CreateTime", "commit.mode": "auto", "drain.ms": 240000,
  "delay.max.ms": 2592000000,
};

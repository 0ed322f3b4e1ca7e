import { bytes, duration } from "./format.js";

export const records = (topic) => topic.partitions.reduce((sum, one) => sum + one.high_watermark - one.log_start_offset, 0);
export const size = (topic) => topic.partitions.reduce((sum, one) => sum + one.size_bytes, 0);
export const produced = (topic) => topic.partitions.reduce((sum, one) => sum + one.high_watermark, 0);

// Records and commits a second between the last two `looks`, by name; none for a topic made anew.
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

// "1h30m" as ms, "1GiB" as bytes, for a setting of that unit; the gateway judges any other text.
const TIMES = { d: 864e5, h: 36e5, min: 6e4, m: 6e4, s: 1000, ms: 1 }, SIZES = { tib: 2 ** 40, gib: 2 ** 30, mib: 2 ** 20, kib: 1024, b: 1 };
export function plain(name, text) {
  const units = name.endsWith(".ms") ? TIMES : name.endsWith("bytes") ? SIZES : {}, parts = [...text.matchAll(/\s*(\d+)\s*([a-z]+)/gi)];
  const size = ([, number, unit]) => number * units[unit.toLowerCase()];
  return parts.map((one) => one[0]).join("") === text && parts.every(size) ? String(parts.reduce((sum, one) => sum + size(one), 0)) : text;
}

// As the gateway has them; a test holds them against it.
export const CHOICES = {
  "cleanup.policy": ["delete", "compact", "compact,delete", ""], "compression.type": ["zstd", "lz4", "snappy", "gzip", "uncompressed"],
  "message.timestamp.type": ["CreateTime", "LogAppendTime"], "commit.mode": ["auto", "own", "shared"],
  "data.on.error": ["dead-letter", "mark", "reject"], "data.backfill": ["off", "on"],
  "value.keep": ["false", "true"], "erase.keep": ["key", "nothing"],
};
export const UNSET = ["value.schema", "key.schema", "data.on.error", "data.backfill", "value.keep", "erase.keep", "table.cluster.by", "table.file.bytes"];
export const DEFAULTS = {
  "retention.ms": 604800000, "retention.bytes": -1, "cleanup.policy": "delete", "delete.retention.ms": 86400000,
  "min.compaction.lag.ms": 0, "max.message.bytes": 1048576, "flush.ms": 250, "flush.bytes": 8388608,
  "compression.type": "zstd", "message.timestamp.type": "CreateTime", "commit.mode": "auto", "drain.ms": 240000,
  "delay.max.ms": 2592000000,
};

// What a change loses, to be confirmed.
export function losses(topic, { config, partition_count: partitions }) {
  const after = (name) => Number(config[name] ?? DEFAULTS[name]);
  const shrinks = (name) => name in config && after(name) >= 0 && (topic.config[name] < 0 || after(name) < topic.config[name]);
  return [
    shrinks("retention.ms") && `Records older than ${duration(after("retention.ms"))} are deleted.`,
    shrinks("retention.bytes") && `Of each partition only the newest ${bytes(after("retention.bytes"))} stay.`,
    partitions && "Most keys move to another partition: their new records are in no order with those that are there.",
  ].filter(Boolean);
}

export const text = (record, name = "value") => record[name] ?? null;

// The bytes of a member; null where it is null.
export function bytesOf(record, name = "value") {
  const packed = record[`${name}_base64`];
  if (packed !== undefined) return Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  return record[name] === null || record[name] === undefined ? null : new TextEncoder().encode(record[name]);
}

// One line of it, for a table. What is not text is shown as the beginning of its bytes.
export function preview(record, name = "value", most = 160) {
  const known = record[`${name}_decoded`]?.text;
  if (known !== undefined) return known.length > most ? `${known.slice(0, most)}…` : known;
  const packed = record[`${name}_base64`];
  if (packed !== undefined) return `0x${hexOf(bytesOf({ [`${name}_base64`]: packed.slice(0, 64) }, name), "")}${packed.length > 64 ? "…" : ""}`;
  const value = record[name];
  if (value === null || value === undefined) return null;
  return value.length > most ? `${value.slice(0, most)}…` : value;
}

const hexOf = (bytes, between) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(between);

// As hexdump -C: offset, sixteen bytes, and what of them is ASCII.
export function hex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const some = bytes.subarray(at, at + 16);
    const letters = Array.from(some, (byte) => byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".").join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hexOf(some, " ").padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

// JSON in lines, or null where it is none. Only white space changes: numbers keep their digits, members their order and doubles.
export function pretty(json) {
  try { JSON.parse(json); } catch { return null; }
  let depth = 0, last = "";
  const out = [];
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const opened = last === "{" || last === "[", closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (closes ? !opened : opened || last === ",") out.push("\n", "  ".repeat(Math.min(depth, 20)));
    out.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    last = token;
  }
  return out.join("");
}

// The names of the members of JSON objects among the values, and a member as text: numbers keep their digits.
const raw = (_, value, written) => typeof value === "number" && JSON.rawJSON ? JSON.rawJSON(written.source) : value;
export function objectOf(record) {
  const known = record.value_decoded?.text ?? record.value;
  if (!known || known[0] !== "{" || known.length > 100000) return null;
  try { return JSON.parse(known, raw); } catch { return null; }
}
export function fieldOf(object, name) {
  if (object && Object.hasOwn(object, name)) return textOf(object[name]);
  let at = object;
  for (const part of name.split(".")) { if (!at || typeof at !== "object" || !Object.hasOwn(at, part)) return undefined; at = at[part]; }
  return textOf(at);
}
const textOf = (value) => typeof value === "string" ? value : JSON.stringify(value);

// The same records by curl, the command line and the SDK. `from`: [partition, offset], where each begins.
const quoted = (value) => /^[\w./:=@-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
export function code(origin, { topic, partition, from, key, header, text, signed }) {
  const query = Object.entries({ offset: from[0][1], key, header, value_contains: text }).filter(([, value]) => value !== undefined && value !== "");
  const url = `${origin}/v1/topics/${encodeURIComponent(topic)}/partitions/${from[0][0]}/records?${new URLSearchParams(query)}`;
  const [name, ...rest] = (header || "").split(":"), value = rest.join(":");
  const options = ["--url", origin, partition && "--partition", partition, "--from", from.map((one) => one.join(":")).join(), key && "--key", key, header && "--filter", header && `${name}=${value}`];
  const wanted = [key && `key=${JSON.stringify(key)}`, header && `headers={${JSON.stringify(name)}: ${JSON.stringify(value)}}`].filter(Boolean);
  const filter = wanted.length ? `, filter=Filter(${wanted.join(", ")})` : "";
  return {
    curl: `curl ${signed ? '-H "Authorization: Bearer $TIDELOG_TOKEN" ' : ""}${quoted(url)}`,
    "Command line": ["tidelog consume", topic, ...options.filter(Boolean).map(quoted)].join(" ") + (text ? ` | grep -F -e ${quoted(text)}` : ""),
    Python: `from tidelog import Consumer, Filter, TopicPartition

start = {${from.map((one) => one.join(": ")).join(", ")}}
with Consumer(bootstrap_servers=${JSON.stringify(origin)}${filter}, consumer_timeout_ms=500) as consumer:
    consumer.assign([TopicPartition(${JSON.stringify(topic)}, partition) for partition in start])
    for place in consumer.assignment():
        consumer.seek(place, start[place.partition])
    for record in consumer:
        ${text ? `if ${JSON.stringify(text)}.encode() in (record.value or b""):
            ` : ""}print(record.partition, record.offset, record.key, record.value)`,
  };
}

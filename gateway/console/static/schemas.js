// Schemas of the registry, and values that name one: a zero byte, the id of the schema in four bytes, and the value. They become JSON
// text, so that long integers keep their digits: Avro by its schema, JSON as it is, Protobuf by its descriptor (protobuf.js).

import { get, path } from "./api.js";
import { protobufReader } from "./protobuf.js";
import { bytesOf } from "./record.js";

const HEADER = 5, BYTES_MAX = 200000, STEPS_MAX = 200000, IDS_MAX = 200, UNKNOWN_MAX = 10;
export const SUBJECT_OF = { "value.schema": "data", "key.schema": "key_data" };
export const registry = (texts, ...parts) => `/registry${path(texts, ...parts)}`;

export const subjects = (signal, query) => get("/registry/subjects", { query: { limit: 1000, ...query }, signal });

class Input {
  constructor(bytes) { this.bytes = bytes; this.at = HEADER; this.steps = 0; this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength); }
  take(size) {
    const from = this.at;
    if (size < 0 || from + size > this.bytes.length) throw new Error("it ends too early");
    this.at += size;
    return from;
  }
  long() {
    let found = 0n, shift = 0n, byte;
    do {
      byte = this.bytes[this.take(1)];
      found |= BigInt(byte & 127) << shift;
      shift += 7n;
      if (shift > 70n) throw new Error("a number is too long");
    } while (byte & 128);
    return BigInt.asIntN(64, (found >> 1n) ^ -(found & 1n));
  }
  size() { return Number(this.long()); }
  part(size) { return this.bytes.subarray(this.take(size), this.at); }
  text() { return new TextDecoder("utf-8", { fatal: true }).decode(this.part(this.size())); }
}

const quoted = (text) => JSON.stringify(text);
const float = (value) => Number.isFinite(value) ? String(value) : quoted(String(value));
const base64 = (bytes) => quoted(btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")));
const PLAIN = {
  null: () => "null", boolean: (input) => String(input.bytes[input.take(1)] === 1), int: (input) => String(input.long()), long: (input) => String(input.long()),
  float: (input) => float(input.view.getFloat32(input.take(4), true)), double: (input) => float(input.view.getFloat64(input.take(8), true)),
  bytes: (input) => base64(input.part(input.size())), string: (input) => quoted(input.text()),
};
const moment = (per) => (input) => { const ticks = input.long(), at = new Date(Number(ticks / per)); return Number.isNaN(at.getTime()) ? String(ticks) : quoted(at.toISOString()); };
const LOGICAL = {
  date: (input) => { const at = new Date(input.size() * 864e5); return quoted(Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 10)); },
  "timestamp-millis": moment(1n),
  "timestamp-micros": (input) => { const micros = input.long(), at = new Date(Number(micros / 1000n)); return Number.isNaN(at.getTime()) ? String(micros) : quoted(at.toISOString().replace("Z", `${String(((micros % 1000n) + 1000n) % 1000n).padStart(3, "0")}Z`)); },
};

function decimal(part, scale) {
  let whole = 0n;
  for (const byte of part) whole = (whole << 8n) | BigInt(byte);
  whole = BigInt.asIntN(8 * part.length, whole);
  const digits = String(whole < 0n ? -whole : whole).padStart(scale + 1, "0"), point = digits.length - scale;
  return quoted(`${whole < 0n ? "-" : ""}${digits.slice(0, point)}${scale ? `.${digits.slice(point)}` : ""}`);
}

// Items of an array or a map, whose blocks say how many follow.
function items(input, read, [open, close]) {
  const found = [];
  for (let left = input.size(); left !== 0; left = input.size()) {
    if (left < 0) { left = -left; input.size(); }
    for (; left > 0; left -= 1) {
      if ((input.steps += 1) > STEPS_MAX) throw new Error("it has too many items");
      found.push(read(input));
    }
  }
  return open + found.join(",") + close;
}

// A function from an input to JSON text. `named`: the types by their full names.
function reader(schema, named, space) {
  if (Array.isArray(schema)) {
    const of = schema.map((one) => reader(one, named, space));
    return (input) => { const branch = of[input.size()]; if (!branch) throw new Error("it names no branch of a union"); return branch(input); };
  }
  if (typeof schema === "string") {
    if (Object.hasOwn(PLAIN, schema)) return PLAIN[schema];
    const full = schema.includes(".") || !space ? schema : `${space}.${schema}`;
    return (input) => { const found = named.get(full) || named.get(schema); if (!found) throw new Error(`type ${schema} is unknown`); return found(input); };
  }
  const { type, logicalType: logical } = schema;
  if (typeof type !== "string") return reader(type, named, space);
  if (type === "array") { const each = reader(schema.items, named, space); return (input) => items(input, each, "[]"); }
  if (type === "map") { const each = reader(schema.values, named, space); return (input) => items(input, (one) => `${quoted(one.text())}:${each(one)}`, "{}"); }
  if (!["record", "error", "enum", "fixed"].includes(type)) {
    if (logical === "decimal" && type === "bytes") return (input) => decimal(input.part(input.size()), schema.scale || 0);
    return (Object.hasOwn(LOGICAL, logical || "") && ["int", "long"].includes(type) && LOGICAL[logical]) || reader(type, named, space);
  }
  const within = schema.name.includes(".") ? schema.name.split(".").slice(0, -1).join(".") : schema.namespace ?? space;
  const full = schema.name.includes(".") || !within ? schema.name : `${within}.${schema.name}`;
  let read;
  named.set(full, (input) => read(input));
  if (type === "enum") read = (input) => { const symbol = schema.symbols[input.size()]; if (symbol === undefined) throw new Error("it names no symbol of an enum"); return quoted(symbol); };
  else if (type === "fixed") read = (input) => logical === "decimal" ? decimal(input.part(schema.size), schema.scale || 0) : base64(input.part(schema.size));
  else {
    const fields = schema.fields.map((field) => [`${quoted(field.name)}:`, reader(field.type, named, within)]);
    read = (input) => { if ((input.steps += 1) > STEPS_MAX) throw new Error("it has too many parts"); return `{${fields.map(([name, value]) => name + value(input)).join(",")}}`; };
  }
  return read;
}

// From the bytes of a value with header to JSON text. `serialized`: the descriptor of a schema of Protobuf.
export function decoder({ schema, schemaType: type = "AVRO" }, serialized) {
  if (type === "PROTOBUF") { const read = protobufReader(serialized); return (bytes) => read(bytes.subarray(HEADER)); }
  if (type === "JSON") return (bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(HEADER));
  const read = reader(JSON.parse(schema), new Map(), "");
  return (bytes) => {
    const input = new Input(bytes), text = read(input);
    if (input.at !== bytes.length) throw new Error(`${bytes.length - input.at} bytes follow it`);
    return text;
  };
}

async function learnt(id) {
  const one = await get(registry`/schemas/ids/${id}`, { query: { format: "resolved" } });
  const serialized = one.schemaType === "PROTOBUF" ? (await get(registry`/schemas/ids/${id}`, { query: { format: "serialized" } })).schema : null;
  return { type: one.schemaType || "AVRO", read: decoder(one, serialized) };
}

// Any binary value may begin like one that names a schema, so after `UNKNOWN_MAX` unknown ids no other is asked for.
const known = new Map();
let unknown = 0;
function found(id) {
  if (!known.has(id) && unknown >= UNKNOWN_MAX) return { why: "it was not looked up, since other ids were unknown" };
  if (!known.has(id)) {
    if (known.size >= IDS_MAX) known.delete(known.keys().next().value);
    known.set(id, learnt(id).catch((problem) => { unknown += 1; return { why: problem.message }; }));
  }
  return known.get(id);
}

const idOf = (bytes) => bytes && bytes.length > HEADER && bytes[0] === 0 ? new DataView(bytes.buffer, bytes.byteOffset).getUint32(1) : null;

// Gives each of `records` whose key or value names a schema `${name}_decoded`: {id, type, text} or {id, why}.
export async function decode(records) {
  await Promise.all(records.flatMap((record) => ["key", "value"].map(async (name) => {
    if ((record[name]?.length ?? record[`${name}_base64`]?.length ?? 0) > BYTES_MAX) return;
    const bytes = bytesOf(record, name), id = idOf(bytes);
    if (id === null) return;
    const { type, read, why } = await found(id);
    let shown = { id, type, why };
    try { if (read) shown = { id, type, text: read(bytes) }; } catch (problem) { shown.why = `the value is not of the schema: ${problem.message}`; }
    record[`${name}_decoded`] = shown;
  })));
  return records;
}

// What differs between two texts, line by line: [sign, line] with " ", "-" or "+". Null where they are too long to be compared.
export function diff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")], width = b.length + 1;
  if (a.length * b.length > 4e6) return null;
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { lines.push([" ", a[i]]); i += 1; j += 1; }
    else if (i < a.length && (j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) { lines.push(["-", a[i]]); i += 1; }
    else { lines.push(["+", b[j]]); j += 1; }
  }
  return lines;
}

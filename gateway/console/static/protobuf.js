// Values of Protobuf as JSON text, by the descriptor of one file: members that are set, by their declared names, and whole numbers
// with all their digits. Of imported types only google.protobuf.Timestamp is known.

const STEPS_MAX = 200000, DEPTH_MAX = 60;
const quoted = (text) => JSON.stringify(text);
const utf8 = (bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes);

// Entries [number, wire type, value] of a message: a BigInt, or the bytes.
function entries(bytes, budget) {
  const found = [];
  let at = 0;
  const varint = () => {
    let value = 0n, shift = 0n, byte;
    do {
      if (at >= bytes.length || shift > 63n) throw new Error("it ends too early");
      byte = bytes[at]; at += 1;
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
    } while (byte & 128);
    return BigInt.asUintN(64, value);
  };
  const part = (size) => { if (size > bytes.length - at) throw new Error("it ends too early"); at += size; return bytes.subarray(at - size, at); };
  while (at < bytes.length) {
    if ((budget.steps += 1) > STEPS_MAX) throw new Error("it has too many parts");
    const tag = Number(varint()), wire = tag & 7;
    if (![0, 1, 2, 5].includes(wire)) throw new Error("it has a part of an unknown kind");
    found.push([tag >>> 3, wire, wire === 0 ? varint() : part(wire === 1 ? 8 : wire === 5 ? 4 : Number(varint()))]);
  }
  return found;
}

const signed = (value) => String(BigInt.asIntN(64, value)), unsigned = (value) => String(value);
const zigzag = (value) => String((value >> 1n) ^ -(value & 1n));
const fixed = (read) => (bytes) => String(read(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
const float = (read) => fixed((view) => { const value = read(view); return Number.isFinite(value) ? value : quoted(String(value)); });
// By the numbers of FieldDescriptorProto.Type: wire type, and text of a value.
const SCALARS = {
  1: [1, float((view) => view.getFloat64(0, true))], 2: [5, float((view) => view.getFloat32(0, true))], 3: [0, signed], 4: [0, unsigned],
  5: [0, (value) => String(BigInt.asIntN(32, value))], 6: [1, fixed((view) => view.getBigUint64(0, true))], 7: [5, fixed((view) => view.getUint32(0, true))],
  8: [0, (value) => String(value !== 0n)], 9: [2, (bytes) => quoted(utf8(bytes))], 12: [2, (bytes) => quoted(btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")))],
  13: [0, (value) => String(BigInt.asUintN(32, value))], 15: [5, fixed((view) => view.getInt32(0, true))], 16: [1, fixed((view) => view.getBigInt64(0, true))],
  17: [0, zigzag], 18: [0, zigzag],
};

const of = (found, number) => found.filter((one) => one[0] === number).map((one) => one[2]);
const text = (found, number) => utf8(of(found, number)[0] || new Uint8Array());

function described(bytes, space, types) {
  const found = entries(bytes, { steps: 0 }), name = `${space}.${text(found, 1)}`;
  const options = of(found, 7)[0], isMap = options ? of(entries(options, { steps: 0 }), 7)[0] === 1n : false;
  const fields = of(found, 2).map((one) => {
    const field = entries(one, { steps: 0 });
    return { name: text(field, 1), number: Number(of(field, 3)[0]), repeated: of(field, 4)[0] === 3n, type: Number(of(field, 5)[0]), of: text(field, 6) };
  });
  types.set(name, { name, isMap, fields, nested: of(found, 3).map((one) => described(one, name, types)) });
  for (const one of of(found, 4)) enumerated(one, name, types);
  return types.get(name);
}

function enumerated(bytes, space, types) {
  const found = entries(bytes, { steps: 0 });
  types.set(`${space}.${text(found, 1)}`, { symbols: new Map(of(found, 2).map((one) => { const value = entries(one, { steps: 0 }); return [BigInt.asIntN(32, of(value, 2)[0] || 0n), text(value, 1)]; })) });
}

function timestamp(bytes, budget) {
  const found = entries(bytes, budget), nanos = of(found, 2)[0] || 0n;
  const at = new Date(Number(BigInt.asIntN(64, of(found, 1)[0] || 0n)) * 1000);
  return quoted(Number.isNaN(at.getTime()) ? "" : at.toISOString().replace(".000Z", nanos ? `.${String(nanos).padStart(9, "0")}Z` : "Z"));
}

function message(bytes, type, types, budget, depth) {
  if (depth > DEPTH_MAX) throw new Error("it is nested too deeply");
  const found = new Map();
  for (const [number, given, raw] of entries(bytes, budget)) found.has(number) ? found.get(number).push([given, raw]) : found.set(number, [[given, raw]]);
  const value = (field, raw) => {
    if (field.type === 11 && field.of === ".google.protobuf.Timestamp") return timestamp(raw, budget);
    const known = types.get(field.of);
    if (field.type === 11) { if (!known) throw new Error(`type ${field.of} is imported`); return message(raw, known, types, budget, depth + 1); }
    if (field.type === 14) { const number = BigInt.asIntN(32, raw); return quoted(known?.symbols.get(number) ?? String(number)); }
    return SCALARS[field.type][1](raw);
  };
  const wireOf = (field) => field.type === 11 ? 2 : field.type === 14 ? 0 : SCALARS[field.type]?.[0];
  const members = type.fields.map((field) => {
    const wire = wireOf(field);
    if (wire === undefined) throw new Error(`${field.name} is a group`);
    const raws = (found.get(field.number) || []).flatMap(([given, raw]) => given === wire ? [raw] : given === 2 && field.repeated ? unpacked(raw, wire, budget) : []);
    if (!raws.length) return null;
    const map = field.type === 11 && types.get(field.of)?.isMap && types.get(field.of);
    if (map) return `${quoted(field.name)}:{${raws.map((raw) => pair(raw, map, value, budget)).join(",")}}`;
    return `${quoted(field.name)}:${field.repeated ? `[${raws.map((raw) => value(field, raw)).join(",")}]` : value(field, raws[raws.length - 1])}`;
  });
  return `{${members.filter((one) => one !== null).join(",")}}`;
}

function pair(raw, map, value, budget) {
  const found = entries(raw, budget);
  const [key, item] = map.fields.map((field) => { const given = of(found, field.number)[0]; return given === undefined ? (field.type === 9 ? '""' : field.type === 8 ? "false" : "0") : value(field, given); });
  return `${key.startsWith('"') ? key : quoted(key)}:${item}`;
}

function unpacked(bytes, wire, budget) {
  if (wire === 0) { // each number looks like an entry without its tag: give it one
    const found = [];
    for (let at = 0, start = 0; at < bytes.length; at += 1)
      if (!(bytes[at] & 128)) { found.push(entries(Uint8Array.of(8, ...bytes.subarray(start, at + 1)), budget)[0][2]); start = at + 1; }
    return found;
  }
  const size = wire === 1 ? 8 : 4;
  if (wire === 2 || bytes.length % size) throw new Error("it ends too early");
  return Array.from({ length: bytes.length / size }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}

// From the bytes of a value behind its header to JSON text. `file`: the descriptor in base64.
export function protobufReader(file) {
  const found = entries(Uint8Array.from(atob(file), (letter) => letter.charCodeAt(0)), { steps: 0 });
  const space = text(found, 2) ? `.${text(found, 2)}` : "", types = new Map();
  const roots = of(found, 4).map((one) => described(one, space, types));
  for (const one of of(found, 5)) enumerated(one, space, types);
  return (bytes) => {
    const path = [];
    let at = 0;
    const index = () => { let value = 0, shift = 0, byte; do { byte = bytes[at]; at += 1; value |= (byte & 127) << shift; shift += 7; } while (byte & 128 && shift < 28); return value >>> 1; };
    for (let left = index(); left > 0 && path.length < 32; left -= 1) path.push(index());
    const type = (path.length ? path : [0]).reduce((of, number) => (of ? of.nested : roots)[number] ?? fail("it names no message of the schema"), null);
    return message(bytes.subarray(at), type, types, { steps: 0 }, 0);
  };
}

function fail(why) { throw new Error(why); }

// DuckDB's SQL as the editor needs it: what is coloured, and what is completed at a place.
const KEYWORDS = `all and any as asc between by case cast cross cube desc distinct else end except exclude exists false filter first
following from full glob group having ilike in inner intersect is join last lateral left like limit natural not null nulls offset on or
order outer over partition pivot preceding qualify range recursive replace right rollup row rows sample select semi anti similar then
true try_cast unbounded union unnest unpivot using values when where window with`.split(/\s+/);
const FUNCTIONS = `abs arg_max arg_min approx_count_distinct array_agg avg ceil coalesce concat contains count date_diff date_part date_trunc
day_name epoch_ms floor greatest histogram hour if ifnull json_extract json_extract_string lag lead least left_pad len length list lower
max median min mode now nullif quantile_cont rank regexp_extract regexp_matches regexp_replace replace round row_number split_part
starts_with stddev strftime string_agg strptime substr sum to_timestamp today trim typeof unnest upper uuid year`.split(/\s+/);
const RESERVED = new Set(KEYWORDS);
// Further words that are no names of columns or tables (duckdb_keywords(): reserved, type_function).
const NO_NAMES = new Set([...KEYWORDS, ...`analyse analyze array asof asymmetric at authorization binary both check collate collation column
columns concurrently constraint create default deferrable describe do fetch for foreign freeze generated initially into isnull lambda
leading map notnull only overlaps pivot_longer pivot_wider placing positional primary references returning show some struct summarize
symmetric table tablesample to trailing tuple unique unpack variadic verbose`.split(/\s+/)]);

const COLOURED_MAX = 20_000, NAME_MAX = 600; // characters: each key looks at the whole statement anew
const TOKEN = /(--[^\n]*|\/\*[^]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|("(?:[^"]|"")*(?:"|$))|(\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)|([a-z_]\w*)|[^]/giy;
const KINDS = [, "comment", "string", "name", "number", "word"];

// [{kind, text}]: the texts together are the statement. Neighbours without a kind are one.
export function tokens(sql) {
  if (sql.length > COLOURED_MAX) return [{ kind: "", text: sql }];
  const found = [];
  for (const match of sql.matchAll(TOKEN)) {
    let kind = KINDS[match.findIndex((one, i) => i > 0 && one !== undefined)] || "";
    if (kind === "word") kind = RESERVED.has(match[0].toLowerCase()) ? "keyword" : "";
    const last = found.at(-1);
    if (last && !kind && !last.kind) last.text += match[0];
    else found.push({ kind, text: match[0] });
  }
  return found;
}

const plain = /^[a-z_][a-z0-9_]*$/;
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
export const written = (name) => plain.test(name) && !NO_NAMES.has(name) ? name : quoted(name);
// A path as the API names it, in which a name with a dot is between backticks.
export const writtenPath = (path) => [...path.matchAll(/`(.+?)`(?=\.|$)|([^.]+)/g)].map(([, dotted, name]) => written(dotted ?? name)).join(".");
const unquoted = (text) => text.startsWith('"') ? text.slice(1, text.length > 1 && text.endsWith('"') ? -1 : undefined).replaceAll('""', '"') : text;

// The tables that the statement names.
export function tablesOf(sql) {
  const found = [...sql.matchAll(/\b(?:from|join)\s+("(?:[^"]|"")+"|[a-z_]\w*\b(?!\s*\())/gi)].map(([, name]) => unquoted(name));
  return [...new Set(found)];
}

// What is being typed in front of a place: {begin, typed, table: whether a table is expected, behind: the path that it goes on}; null within text, a comment or a number.
export function typedAt(sql, place) {
  let at = 0, typed = "";
  for (const { kind, text } of tokens(sql)) {
    const before = text.slice(0, place - at);
    if (at < place && at + text.length >= place) {
      if (["string", "number", "comment"].includes(kind)) return null;
      const closed = kind === "name" && before.length > 1 && before.endsWith('"');
      typed = closed ? "" : kind === "name" ? before : /[a-z_]\w*$/i.exec(before.slice(-NAME_MAX))?.[0] || "";
    }
    at += text.length;
  }
  const begin = place - typed.length;
  const before = sql.slice(Math.max(0, begin - NAME_MAX), begin);
  return { begin, typed: unquoted(typed), table: /\b(?:from|join)\s+$/i.test(before), behind: /(?:(?:[a-z_]\w*|"(?:[^"]|"")+")\.)+$/i.exec(before)?.[0] || "" };
}

// Columns that go on a path: its members, or those of the table or alias that it begins with.
function columnsBehind(behind, columns) {
  for (let rest = behind; rest; rest = rest.replace(/^(?:"(?:[^"]|"")+"|[^.]+)\./, "")) {
    const inside = columns.filter(([text]) => text.toLowerCase().startsWith(rest.toLowerCase()));
    if (inside.length) return inside.map(([text]) => text.slice(rest.length));
  }
  return columns.map(([text]) => text);
}

// [{text, kind}], at most `most`: what begins with what was typed, before what has it within; columns are [name, type].
export function completions({ typed, table, behind }, { topics, columns }, most = 8) {
  const column = (text) => ({ text, name: text.replaceAll('"', ""), kind: "column" });
  const all = table ? topics.map((name) => ({ text: written(name), name, kind: "table" })) : behind ? columnsBehind(behind, columns).map(column) : [
    ...columns.map(([text]) => column(text)),
    ...KEYWORDS.map((text) => ({ text, name: text, kind: "keyword" })),
    ...FUNCTIONS.map((text) => ({ text: `${text}(`, name: text, kind: "function" })),
    ...topics.map((name) => ({ text: written(name), name, kind: "table" })),
  ];
  const wanted = typed.toLowerCase(), begins = (one) => one.name.toLowerCase().startsWith(wanted);
  const within = (one) => wanted.length > 1 && !begins(one) && one.name.toLowerCase().includes(wanted);
  return [...all.filter(begins), ...all.filter(within)].slice(0, most);
}

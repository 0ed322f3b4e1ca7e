import { useEffect, useRef, useState } from "../vendored/preact.js";
import { get, html, path, plural, useSettled } from "../parts.js";
import { completions, tablesOf, tokens, typedAt, writtenPath } from "../sql_words.js";

const LISTED = 20, TABLES = 4;
export const COLUMNS = [["topic", "VARCHAR"], ["partition", "INTEGER"], ['"offset"', "BIGINT"], ["timestamp", "TIMESTAMPTZ"], ["key", "VARCHAR"], ["value", "VARCHAR"], ["headers", "STRUCT[]"]];
export const columnsOf = async (topic, signal) => [...COLUMNS, ...((await get(path`/v1/topics/${topic}`, { signal })).columns || []).map((one) => [writtenPath(one.name), one.type])];

const shown = (sql) => tokens(sql).map(({ kind, text }) => kind ? html`<span class=${kind}>${text}</span>` : text);

// Of a table that there is: a name may be half typed.
const columnsOfKnown = async (name, signal) => {
  const { topics } = await get("/v1/topics", { query: { search: name, limit: LISTED, max_age_ms: 60000 }, signal });
  return topics.some((one) => one.name === name) ? columnsOf(name, signal) : [];
};

// What a request brings, by what it depends on; nothing while it is under way, and where it fails: names can be typed.
function useFound(ask, key, nothing) {
  const [found, keep] = useState(nothing);
  useEffect(() => {
    if (key === null) return undefined;
    const over = new AbortController();
    ask(over.signal).then(keep, () => {});
    return () => over.abort();
  }, [key]);
  return found;
}

// A statement with colours and completion. Suggestions come as one types, or by Ctrl-Space; the arrow keys choose, Enter or Tab takes.
export function SqlEditor({ value, onInput, onKeyDown, ...input }) {
  const [at, turn] = useState(null), [chosen, choose] = useState(-1), area = useRef(), below = useRef();
  const word = at === null ? null : typedAt(value, at);
  const searched = useSettled(word && !word.behind && (word.typed || word.table) ? word.typed : null), named = useSettled(tablesOf(value).slice(0, TABLES).join("\n"));
  const topics = useFound((signal) => get("/v1/topics", { query: { search: searched, limit: LISTED, max_age_ms: 60000 }, signal }).then((found) => found.topics.map((one) => one.name)), searched, []);
  const columns = useFound((signal) => Promise.all(named.split("\n").filter(Boolean).map((one) => columnsOfKnown(one, signal).catch(() => []))).then((all) => [...new Map(all.flat())]), named || null, []);
  const offered = word ? completions(word, { topics, columns: columns.length ? columns : COLUMNS }).filter((one) => one.text !== word.typed) : [];
  const close = () => { turn(null); choose(-1); };
  const take = ({ text }) => {
    area.current.setRangeText(text, word.begin, at, "end");
    area.current.focus();
    onInput(area.current.value);
    close();
  };
  const type = ({ target, inputType }) => {
    onInput(target.value);
    choose(-1);
    const place = target.selectionStart, now = typedAt(target.value, place);
    turn(inputType?.startsWith("insert") && now && (now.typed || now.table || now.behind) ? place : null);
  };
  const press = (event) => {
    if (event.key === " " && event.ctrlKey) { turn(event.target.selectionStart); choose(0); }
    else if (offered.length && /^Arrow(Up|Down)$/.test(event.key)) choose((chosen + (event.key === "ArrowDown" ? 1 : chosen < 0 ? 0 : -1) + offered.length) % offered.length);
    else if (offered.length && event.key === "Escape") close();
    else if (offered[chosen] && !event.ctrlKey && !event.metaKey && (event.key === "Enter" || event.key === "Tab")) take(offered[chosen]);
    else { if (/^(Arrow|Home|End|Page)/.test(event.key)) close(); onKeyDown(event); return; }
    event.preventDefault();
    event.stopPropagation();
  };
  const scroll = () => { below.current.scrollTop = area.current.scrollTop; };
  useEffect(scroll, [value]);
  return html`<div class="field"><label for="statement">Statement</label>
    <div class="editor"><pre aria-hidden="true" ref=${below}>${shown(value)}${"\n"}</pre>
      <textarea id="statement" ref=${area} value=${value} onInput=${type} onKeyDown=${press} onScroll=${scroll} onBlur=${close} onClick=${close} ...${input} autocomplete="off" spellcheck=${false}
        aria-describedby="statement-hint" aria-autocomplete="list" aria-haspopup="listbox" aria-controls=${offered.length ? "suggestions" : undefined} aria-activedescendant=${offered[chosen] ? `suggestion-${chosen}` : undefined}></textarea>
      ${offered.length > 0 && html`<ul id="suggestions" role="listbox" aria-label="Suggestions">${offered.map((one, i) => html`<li key=${one.text} id=${`suggestion-${i}`} role="option" aria-selected=${String(i === chosen)}
        onMouseDown=${(event) => { event.preventDefault(); take(one); }}><span class="value">${one.text}</span> <small class="muted">${one.kind}</small></li>`)}</ul>`}
      <p class="unseen" role="status">${offered.length > 0 ? `${plural(offered.length, "suggestion")}, by the arrow keys` : ""}</p></div>
    <small id="statement-hint">A SELECT in DuckDB's SQL, with topics as tables. Ctrl-Enter runs it, Ctrl-Space completes.</small></div>`;
}

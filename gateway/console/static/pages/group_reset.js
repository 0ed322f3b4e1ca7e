import { Dialog, Field, Form, html, minor, number, PagedTable, path, plural, post, text, toast, useState } from "../parts.js";

const TARGETS = [["earliest", "the earliest record"], ["latest", "the end"], ["timestamp", "a time"], ["offset", "an offset"], ["shift", "a shift by records"]];

const target = ({ to, at }) => to === "timestamp" ? { timestamp: Date.parse(at) } : at ? { [to]: Number(at) } : to;

// What the answer to a preview moves; `lag` has what is committed now.
function changes(lag, offsets) {
  const committed = new Map(lag.topics.flatMap(({ topic, partitions }) => partitions.map((one) => [`${topic}/${one.partition}`, one.committed_offset])));
  return offsets.filter((one) => one.committed_at === 0)
    .map((one) => ({ key: `${one.topic}/${one.partition}`, before: committed.get(`${one.topic}/${one.partition}`) ?? null, after: one.offset }))
    .filter((one) => one.before !== one.after);
}

const effect = ({ before, after }) =>
  before === null ? "starts here" : after < before ? `${plural(before - after, "record")} read again` : `${plural(after - before, "record")} skipped`;

const COLUMNS = [text("key", "Partition"), text("effect", "Effect", { number: true, cell: effect, value: null }), number("before", "Current", minor), number("after", "New")];

export function ResetDialog({ group, lag, members, onClose, onDone }) {
  const topics = lag.topics.map(({ topic }) => topic);
  const [to, aim] = useState("earliest");
  const [plan, show] = useState(null);
  const route = path`/v1/groups/${group}/offsets:reset`;
  const preview = async (wish) => {
    const body = { topics: wish.topic ? [wish.topic] : topics, to: target(wish) };
    const { offsets } = await post(route, { ...body, preview: true });
    show({ body, rows: changes(lag, offsets) });
  };
  const reset = async () => {
    await post(route, plan.body);
    toast(`Offsets of ${plural(plan.rows.length, "partition")} reset.`);
    onDone();
    onClose();
  };
  const many = plan && plural(plan.rows.length, "partition");
  return html`<${Dialog} title="Reset offsets" wide onClose=${onClose}>
    ${members > 0 && html`<p class="warn">The group has ${plural(members, "live member")}. Stop them first: with live members a reset is refused.</p>`}
    ${plan === null
      ? html`<${Form} key="wish" action="Preview" onSend=${preview} onCancel=${onClose} disabled=${!topics.length}>
          <${Field} label="Topics" name="topic" options=${[["", "all topics of the group"], ...topics]} />
          <${Field} label="To" name="to" value=${to} options=${TARGETS} onInput=${(event) => aim(event.target.value)} />
          ${to === "timestamp" && html`<${Field} label="First record at or after" name="at" type="datetime-local" step="0.001" required hint="In this browser's time zone" />`}
          ${to === "offset" && html`<${Field} label="Offset" name="at" type="number" min="0" required hint="At most the end of each partition" />`}
          ${to === "shift" && html`<${Field} label="Records" name="at" type="number" required hint="-100: read the last hundred again" />`}
        <//>`
      : html`<${Form} key="plan" action=${`Reset ${many}`} danger disabled=${!plan.rows.length} onSend=${reset} onCancel=${() => show(null)}>
          <p role="status">${plan.rows.length ? `This changes ${many}:` : "No offset would change."}</p>
          ${plan.rows.length > 0 && html`<${PagedTable} label="Changes" what="partition" each=${50} columns=${COLUMNS} rows=${plan.rows} rowKey=${(row) => row.key} />`}
        <//>`}
  <//>`;
}

// One event stream for the whole console: a browser has six connections to a host, and other requests need them.
// A stream that is opened ends the one before it. `fetch` and not EventSource: only it can send the caller's token.

import { Problem, request } from "./api.js";

let current = null;

// Calls onEvent({event, id, data}) for each event until the returned function is called. onState: "open", "waiting", or a Problem
// that ends it. A broken connection is taken up behind the last id, so nothing is left out. Events wait in the connection while
// onEvent works: the gateway is never asked for more than this page has taken.
export function stream(route, { query, onEvent, onState = () => {} }) {
  current?.abort();
  const mine = current = new AbortController();
  follow(route, query, onEvent, onState, mine.signal).catch((error) => { if (!mine.signal.aborted) onState(error); });
  return () => mine.abort();
}

async function follow(route, query, onEvent, onState, signal) {
  let last = null;
  while (!signal.aborted) {
    try {
      const headers = last === null ? {} : { "last-event-id": last };
      const response = await request(route, { query, headers, accept: "text/event-stream", signal });
      onState("open");
      for await (const event of events(response.body, signal)) {
        if (event.id !== null) last = event.id;
        if (event.event === "end") break;
        if (event.data !== null) onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && !error.body.retryable) throw error;
    }
    if (signal.aborted) return;
    onState("waiting");
    await new Promise((wake) => setTimeout(wake, 1000));
  }
}

async function* events(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  signal.addEventListener("abort", () => reader.cancel().catch(() => {}));
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) yield parsed(block);
  }
}

function parsed(block) {
  const event = { event: "message", id: null, data: null };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) continue;
    const name = line.slice(0, colon), value = line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
    else if (name in event) event[name] = value;
  }
  return event;
}

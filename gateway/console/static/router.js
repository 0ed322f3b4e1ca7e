// Routes are hashes: #/topics/flights?partition=3. A path part is percent-encoded, so any name has a route.

import { useLayoutEffect, useState } from "./vendored/preact.js";

const parsed = () => {
  const [path, query] = (location.hash.slice(1) || "/").split("?", 2);
  return { path, query: Object.fromEntries(new URLSearchParams(query || "")) };
};

const decoded = (part) => { try { return decodeURIComponent(part); } catch { return part; } };

// The page of `pages` whose `path` ("/topics/:topic") has the hash's form, and its parts by name.
export function match(pages, path) {
  const given = path.split("/").filter(Boolean);
  for (const page of pages) {
    const wanted = page.path.split("/").filter(Boolean);
    if (wanted.length !== given.length) continue;
    const params = {};
    if (wanted.every((part, i) => part[0] === ":" ? (params[part.slice(1)] = decoded(given[i]), true) : part === given[i]))
      return { page, params };
  }
  return null;
}

// link`/topics/${name}` and its query: where an <a href> points to.
export const link = (texts, ...parts) => "#" + texts.reduce((whole, text, i) => whole + encodeURIComponent(parts[i - 1]) + text);
export const withQuery = (target, query = {}) => {
  const pairs = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return pairs.size ? `${target}?${pairs}` : target;
};

export const go = (target) => { location.hash = target; };
// Changes the query without a step in the history: what is typed into a search box.
export const replaceQuery = (query) => {
  history.replaceState(null, "", withQuery("#" + parsed().path, { ...parsed().query, ...query }));
  dispatchEvent(new HashChangeEvent("hashchange"));
};

export function useRoute() {
  const [route, setRoute] = useState(parsed);
  useLayoutEffect(() => {
    const changed = () => setRoute(parsed());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

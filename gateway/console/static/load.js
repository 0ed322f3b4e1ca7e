import { useEffect, useRef, useState } from "./vendored/preact.js";

// {data, problem, loading, reload}. `load(signal)` is called when `deps` change, on reload(), and each `everyMs` while the page
// is seen. Old data stays while new data is on its way, so nothing jumps.
export function useLoad(load, deps = [], everyMs = 0) {
  const [shown, show] = useState({ data: undefined, problem: null, loading: true });
  const ask = useRef(() => {});
  useEffect(() => {
    let over = false, asking = null, timer = 0;
    const once = async () => {
      asking?.abort();
      clearTimeout(timer);
      const mine = asking = new AbortController();
      try {
        const data = await load(mine.signal);
        if (!over && mine === asking) show({ data, problem: null, loading: false });
      } catch (problem) {
        if (!over && mine === asking && problem.name !== "AbortError") show((old) => ({ data: old.data, problem, loading: false }));
      }
      if (!over && mine === asking && everyMs) timer = setTimeout(() => document.hidden ? null : once(), everyMs);
    };
    const seen = () => { if (!document.hidden && everyMs) once(); };
    show((old) => ({ ...old, loading: true }));
    ask.current = once;
    once();
    document.addEventListener("visibilitychange", seen);
    return () => { over = true; asking?.abort(); clearTimeout(timer); document.removeEventListener("visibilitychange", seen); };
  }, deps);
  return { ...shown, reload: () => ask.current() };
}

// A value that follows another one after a pause: what is typed, before it is asked for.
export function useSettled(value, ms = 200) {
  const [settled, settle] = useState(value);
  useEffect(() => { const timer = setTimeout(() => settle(value), ms); return () => clearTimeout(timer); }, [value]);
  return settled;
}

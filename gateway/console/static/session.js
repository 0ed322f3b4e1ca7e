import { useEffect, useState } from "./vendored/preact.js";

const KEY = "tidelog.token";
const listeners = new Set();
let state = { token: null, who: null, signedOut: false, why: "" };
try { state.token = sessionStorage.getItem(KEY); } catch { /* storage is off: the token lasts as long as the page */ }

const change = (next) => {
  state = { ...state, ...next };
  for (const listener of listeners) listener(state);
};

export const token = () => state.token;
const { dataset } = document.documentElement;
export const readonly = dataset.console === "readonly", sql = dataset.sql === "on";

export function signIn(text) {
  try { sessionStorage.setItem(KEY, text); } catch { /* as above */ }
  change({ token: text, who: null, signedOut: false, why: "" });
}

// A 401 leads here, too. `why` is told where one signs in.
export function signOut(why = "") {
  try { sessionStorage.removeItem(KEY); } catch { /* as above */ }
  change({ token: null, who: null, signedOut: true, why: why || state.why });
}

export const known = (who) => change({ who });

export function useSession() {
  const [shown, show] = useState(state);
  useEffect(() => { show(state); listeners.add(show); return () => listeners.delete(show); }, []);
  return shown;
}

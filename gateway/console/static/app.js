import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "./vendored/preact.js";
import { get } from "./api.js";
import { Escaped } from "./components/escaped.js";
import { Field, Form } from "./components/form.js";
import { Loading, ProblemBox } from "./components/states.js";
import { Toasts } from "./components/toasts.js";
import * as login from "./login.js";
import { pages } from "./pages.js";
import { match, useRoute } from "./router.js";
import { known, readonly, signIn, signOut, token, useSession } from "./session.js";

const THEMES = { auto: "light", light: "dark", dark: "auto" };

function ThemeSwitch() {
  const [theme, set] = useState(document.documentElement.dataset.theme || "auto");
  const turn = () => {
    const next = THEMES[theme];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try { next === "auto" ? localStorage.removeItem("tidelog.theme") : localStorage.setItem("tidelog.theme", next); } catch { /* for this page only */ }
    set(next);
  };
  return html`<button class="quiet" onClick=${turn} aria-label=${`Theme: ${theme}. Change it`}>Theme: ${theme}</button>`;
}

function Side({ session, here }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [here]);
  const shown = pages.filter((page) => page.nav);
  return html`<header class="side">
    <a class="brand" href="#/"><svg viewBox="0 0 32 32" aria-hidden="true"><path d="M3 12c4.5-5 8.5-5 13 0s8.5 5 13 0M3 21c4.5-5 8.5-5 13 0s8.5 5 13 0" /></svg>Tidelog</a>
    <button class="quiet menu" aria-expanded=${String(open)} aria-controls="nav" onClick=${() => setOpen(!open)}>Menu</button>
    <div id="nav" class=${open ? "open" : ""}>
      <nav aria-label="Pages"><ul>${shown.map((page) => html`<li key=${page.path}>
        <a href=${`#${page.path}`} aria-current=${here === page.path ? "page" : undefined}>${page.nav}</a></li>`)}</ul></nav>
      <div class="side-foot">
        ${readonly && html`<span class="tag">read-only</span>`}
        ${session.who && session.who.authentication !== "none" && html`<span class="who value" title=${session.who.principal}><${Escaped} of=${session.who.principal} /></span>`}
        ${session.token && html`<button class="quiet" onClick=${() => signOut()}>Sign out</button>`}
        <a href="/docs">HTTP API</a>
        <${ThemeSwitch} />
      </div>
    </div>
  </header>`;
}

async function enter(text) {
  const who = await get("/v1/whoami", { headers: { authorization: `Bearer ${text}` } });
  signIn(text);
  known(who);
}

// A login's tokens are for different readers. Which of them is for this gateway, it says itself.
async function logIn() {
  const tokens = await login.ended();
  for (const one of tokens || [])
    try { return await enter(one); } catch (problem) { if (problem.status !== 401) throw problem; }
  if (tokens) throw new Error("The gateway refuses the tokens of this login: none is for its oidc_audience.");
}

function SignIn({ why }) {
  return html`<section class="sign-in" aria-labelledby="sign-in">
    <h1 id="sign-in">Sign in</h1>
    <p>This gateway requires authentication. Your rights decide what the console shows.</p>
    ${why && html`<p class="warn" role="alert">${why}</p>`}
    ${login.where && html`<${Form} action=${`Log in at ${login.where}`} onSend=${login.begin} />`}
    <${Form} action="Sign in" onSend=${(given) => enter(given.token.trim())}>
      <${Field} label="Token" name="token" type="password" required hint="Kept in this tab until it is closed. tidelog token create creates one." />
    <//>
  </section>`;
}

function Page({ found, route }) {
  const [shown, show] = useState({ page: null, component: null });
  const [problem, forget] = useErrorBoundary();
  useEffect(() => {
    let over = false;
    forget();
    found.page.load().then(
      (module) => over || show({ page: found.page, component: module.default }),
      () => over || show({ page: found.page, component: () => html`<${ProblemBox} problem=${{ message: "This page could not be loaded. Reload the console." }} />` }),
    );
    return () => { over = true; };
  }, [found.page]);
  if (problem) return html`<${ProblemBox} problem=${{ message: `This page failed: ${problem.message}` }} retry=${forget} />`;
  if (shown.page !== found.page) return html`<${Loading} lines=${6} />`;
  return html`<${shown.component} key=${JSON.stringify(found.params)} params=${found.params} query=${route.query} />`;
}

function focusSearch(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  const search = document.querySelector("main input[type=search]");
  if (search) { event.preventDefault(); search.focus(); search.select(); }
}

function App() {
  const session = useSession();
  const route = useRoute();
  const main = useRef();
  const found = match(pages, route.path);
  const here = found && (found.page.under || found.page.path);
  const title = found ? [...Object.values(found.params), pages.find((page) => page.path === here)?.nav].filter(Boolean).join(" · ") : "Not found";
  useEffect(() => {
    get("/v1/whoami").then(known, () => {});
    addEventListener("keydown", focusSearch);
    return () => removeEventListener("keydown", focusSearch);
  }, []);
  useEffect(() => { document.title = `${title} – Tidelog`; }, [title]);
  const first = useRef(true);
  useLayoutEffect(() => { if (!first.current) { main.current.focus(); scrollTo(0, 0); } first.current = false; }, [route.path]);
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the page</a>
    <${Side} session=${session} here=${here} />
    <main ref=${main} id="main" tabindex="-1">
      ${session.signedOut ? html`<${SignIn} why=${session.why} />`
        : found ? html`<${Page} key=${session.token} found=${found} route=${route} />`
        : html`<div class="page"><h1>Page not found</h1><p><a href="#/">To the overview</a></p></div>`}
    </main>
    <${Toasts} />
  </div>`;
}

const root = document.getElementById("app");
await logIn().catch((problem) => token() || signOut(problem.message));
root.textContent = "";
render(html`<${App} />`, root);

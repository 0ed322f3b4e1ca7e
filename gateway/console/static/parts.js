// What pages are made of, at one place: a page has one import of it.

export * from "./vendored/preact.js";
export * from "./api.js";
export * from "./components/columns.js";
export * from "./components/dialog.js";
export * from "./components/form.js";
export * from "./components/pages.js";
export * from "./components/plot.js";
export * from "./components/states.js";
export * from "./components/table.js";
export * from "./components/toasts.js";
export * from "./format.js";
export * from "./load.js";
export * from "./rights.js";
export * from "./router.js";
export * from "./session.js";

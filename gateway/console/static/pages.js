// In the order of the navigation. `nav`: a page's name there; one without is reached by links, and its `under` is marked there.

import { sql } from "./session.js";

export const pages = [
  { path: "/", nav: "Overview", load: () => import("./pages/overview.js") },
  { path: "/topics", nav: "Topics", load: () => import("./pages/topics.js") },
  { path: "/topics/:topic", under: "/topics", load: () => import("./pages/topic.js") },
  { path: "/topics/:topic/messages", under: "/topics", load: () => import("./pages/messages.js") },
  { path: "/groups", nav: "Groups", load: () => import("./pages/groups.js") },
  { path: "/groups/:group", under: "/groups", load: () => import("./pages/group.js") },
  { path: "/queues", nav: "Queues", load: () => import("./pages/queues.js") },
  { path: "/queues/:queue", under: "/queues", load: () => import("./pages/queue.js") },
  { path: "/transactions", nav: "Transactions", load: () => import("./pages/transactions.js") },
  { path: "/schemas", nav: "Schemas", load: () => import("./pages/schemas.js") },
  { path: "/schemas/:subject", under: "/schemas", load: () => import("./pages/schema.js") },
  ...(sql ? [{ path: "/sql", nav: "SQL", load: () => import("./pages/sql.js") }] : []),
  { path: "/access", nav: "Access", load: () => import("./pages/access.js") },
];

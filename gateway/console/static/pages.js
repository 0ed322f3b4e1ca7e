// Every page, in the order of the navigation. A page is a module in pages/ whose default export is a component with the props
// {params, query}: the named parts of its path, and the route's query. `nav`: its name in the navigation; without it, it is
// reached by links, and `under` is the path that is marked there. `when(session)`: whether the navigation offers it.

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
  { path: "/access", nav: "Access", load: () => import("./pages/access.js") },
];

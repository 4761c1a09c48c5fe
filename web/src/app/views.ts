import type { View } from "../router/view.js";

/** All views. A new view is an entry here and a folder in views/. The first pattern that matches the path wins. */
export const views: readonly View[] = [
  {
    pattern: "/",
    title: "Now",
    navigation: "/",
    load: () => import("../views/now/now-view.js").then(({ NowView }) => NowView),
  },
  {
    pattern: "/runs/:runId",
    title: "Run",
    navigation: null,
    load: () => import("../views/run/run-view.js").then(({ RunView }) => RunView),
  },
  {
    pattern: "/sessions",
    title: "Sessions",
    navigation: "/sessions",
    load: () => import("../views/sessions/sessions-view.js").then(({ SessionsView }) => SessionsView),
  },
  {
    pattern: "/sessions/:sessionId",
    title: "Session",
    navigation: null,
    load: () => import("../views/sessions/session-view.js").then(({ SessionView }) => SessionView),
  },
  {
    pattern: "/tasks",
    title: "Tasks",
    navigation: "/tasks",
    load: () => import("../views/tasks/tasks-view.js").then(({ TasksView }) => TasksView),
  },
  {
    pattern: "/tasks/:taskId",
    title: "Task",
    navigation: null,
    load: () => import("../views/tasks/task-view.js").then(({ TaskView }) => TaskView),
  },
  {
    pattern: "/approvals",
    title: "Approvals",
    navigation: "/approvals",
    operatorOnly: true,
    load: () => import("../views/approvals/approvals-view.js").then(({ ApprovalsView }) => ApprovalsView),
  },
  {
    pattern: "/approvals/:id",
    title: "Approval",
    navigation: null,
    operatorOnly: true,
    load: () => import("../views/approvals/approval-view.js").then(({ ApprovalView }) => ApprovalView),
  },
  {
    pattern: "/hosts",
    title: "Hosts",
    navigation: "/hosts",
    operatorOnly: true,
    load: () => import("../views/hosts/hosts-view.js").then(({ HostsView }) => HostsView),
  },
  {
    pattern: "/health",
    title: "Health",
    navigation: "/health",
    load: () => import("../views/health/health-view.js").then(({ HealthView }) => HealthView),
  },
];

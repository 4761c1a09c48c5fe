import { z } from "zod";
import { endpoints } from "../endpoints.js";
import { defineRoute, type RouteResponse } from "../route.js";

export const openDashboardRoute = defineRoute({
  ...endpoints.openDashboard,
  summary: "Serve the dashboard on a loopback port, and get a one-time link to it",
  audience: "session",
  errors: ["STATE_UNUSABLE"],
  body: z.strictObject({
    /** Id or key of the session whose view the link opens. Default: the view of the requester. */
    session: z.string().min(1).max(500).optional(),
    /** The loopback port, if the dashboard is not open yet. Default: the former one, or a free one. */
    port: z.int().min(1).max(65_535).optional(),
  }),
  response: z.object({
    /** Logs one browser in, once. */
    url: z.string(),
    /** Host and port that the dashboard listens on. */
    address: z.string(),
    expiresAt: z.number(),
    /** The session whose view it opens. Null: the operator's view. */
    sessionId: z.string().nullable(),
  }),
});

export type DashboardLink = RouteResponse<typeof openDashboardRoute>;

export const closeDashboardRoute = defineRoute({
  ...endpoints.closeDashboard,
  summary: "Log every browser out, and stop serving the dashboard",
  audience: "operator",
  /** `closed`: the dashboard was open. */
  response: z.object({ closed: z.boolean() }),
});

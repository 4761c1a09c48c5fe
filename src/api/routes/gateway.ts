import { z } from "zod";
import type { GatewayWithStatus } from "../../store/gateways/status.js";
import { endpoints } from "../endpoints.js";
import { defineRoute, type ParsedRequest, type RouteResponse } from "../route.js";
import { count, emptyObject, flag } from "./common.js";

export const statusRoute = defineRoute({
  ...endpoints.status,
  summary: "How the gateway is",
  audience: "session",
  params: emptyObject,
  query: emptyObject,
  body: emptyObject,
  response: z.object({
    instanceId: z.string(),
    /** The one that runs; another may be installed meanwhile. */
    version: z.string(),
    pid: z.int(),
    home: z.string(),
    startedAt: z.number(),
    /** It has looked at what was left, and holds what it took up. */
    ready: z.boolean(),
    runs: z.int(),
    /** Why the store cannot be asked now; null: it can. Then `runs` are those that this gateway holds. */
    storeAway: z.string().nullable(),
    /** Health of writes to the store. `renewalMs` is the time since the leases were last renewed. */
    storeWrites: z.object({
      writable: z.boolean(),
      refusal: z.string().nullable(),
      since: z.number().nullable(),
      backlog: z.int(),
      renewalMs: z.number(),
    }),
    tier: z.string().nullable(),
    /** The TCP address it answers on besides its socket; null: none. */
    listen: z.string().nullable(),
  }),
});

export const stopRoute = defineRoute({
  ...endpoints.stop,
  summary: "Stop the gateway",
  audience: "operator",
  params: emptyObject,
  query: emptyObject,
  body: z.strictObject({
    /** `leave`: the runs stay with their anchors. `drain`: wait for tasks to end. `terminate`: stop them. */
    runs: z.enum(["leave", "drain", "terminate"]).default("leave"),
    waitMs: z.number().min(0).max(86_400_000).default(60_000),
  }),
  response: z.object({ left: z.int(), ended: z.int(), terminated: z.int(), callers: z.int() }),
});

export type ShutdownPolicy = ParsedRequest<typeof stopRoute>["body"];
/** The number of runs that were left, that ended by themselves, that were stopped, and the foreground runs among those left. */
export type ShutdownSummary = RouteResponse<typeof stopRoute>;

/** Not followed: one page. Followed: the same objects, one per line, until the caller leaves. */
export const eventsRoute = defineRoute({
  ...endpoints.events,
  summary: "What happened, in order; replayable by sequence number",
  audience: "session",
  params: emptyObject,
  query: z.strictObject({
    after: count.default(0),
    run: z.string().optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
    follow: flag.optional(),
  }),
  body: emptyObject,
  response: z.object({
    events: z.array(
      z.object({
        seq: z.int(),
        runId: z.string(),
        at: z.number(),
        type: z.string(),
        rootPid: z.int().nullable(),
        descendants: z.int(),
        data: z.record(z.string(), z.unknown()),
      }),
    ),
    /** Ask from here for what comes next. */
    after: z.int(),
    /** The store has gone back in time behind the number that was asked from: some of what it forgot may have been missed. */
    gap: z.boolean(),
  }),
});

const gatewaySchema: z.ZodType<GatewayWithStatus> = z.object({
  instanceId: z.string(),
  hostId: z.string(),
  hostName: z.string(),
  bootId: z.string(),
  pidNamespace: z.string(),
  stateId: z.string(),
  version: z.string(),
  capabilities: z.object({
    platform: z.string(),
    arch: z.string(),
    tier: z.string(),
    pty: z.boolean(),
    limits: z.array(z.string()),
    anchorProtocol: z.int(),
  }),
  address: z.object({ host: z.string(), port: z.int() }).nullable(),
  startedAt: z.number(),
  heartbeatAt: z.number(),
  stoppedAt: z.number().nullable(),
  presence: z.enum(["up", "silent", "unreachable", "stopped"]),
  lastHeardAt: z.number().nullable(),
  runs: z.int(),
});

export const listGatewaysRoute = defineRoute({
  ...endpoints.listGateways,
  summary: "Every gateway that keeps its runs in this one's store",
  audience: "operator",
  params: emptyObject,
  query: emptyObject,
  body: emptyObject,
  response: z.object({ gateways: z.array(gatewaySchema) }),
});

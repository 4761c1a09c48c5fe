import { z } from "zod";
import { doctorCheckSchema } from "../../model/doctor-check.js";
import { endpoints } from "../endpoints.js";
import { defineRoute, type ParsedRequest, type RouteResponse } from "../route.js";
import { count, flag, gatewaySchema, pageLimit } from "./schemas.js";

export const statusRoute = defineRoute({
  ...endpoints.status,
  summary: "Get the status of the gateway",
  audience: "session",
  response: z.object({
    instanceId: z.string(),
    /** Version of the running gateway; another version may be installed by now. */
    version: z.string(),
    pid: z.int(),
    home: z.string(),
    startedAt: z.number(),
    /** The gateway has reconciled the runs of its predecessor. */
    ready: z.boolean(),
    runs: z.int(),
    /** Why the store cannot be read; `runs` then counts only the runs that this gateway owns. Null: the store can be read. */
    storeAway: z.string().nullable(),
    /** `renewalMs`: the time since the leases were last renewed. */
    storeWrites: z.object({
      writable: z.boolean(),
      refusal: z.string().nullable(),
      since: z.number().nullable(),
      backlog: z.int(),
      renewalMs: z.number(),
    }),
    tier: z.string().nullable(),
    /** The loopback address that it listens on, beside its socket. Null: none. */
    listen: z.string().nullable(),
  }),
});

export const stopRoute = defineRoute({
  ...endpoints.stop,
  summary: "Stop the gateway",
  audience: "operator",
  body: z.strictObject({
    /** `leave`: the runs continue under their anchors. `drain`: wait until tasks have ended. `terminate`: stop all runs. */
    runs: z.enum(["leave", "drain", "terminate"]).default("leave"),
    waitMs: z.number().min(0).max(86_400_000).default(60_000),
  }),
  response: z.object({ left: z.int(), ended: z.int(), terminated: z.int(), callers: z.int() }),
});

export type ShutdownPolicy = ParsedRequest<typeof stopRoute>["body"];
/** The number of runs that were left, that ended by themselves, that were stopped, and the foreground runs among those left. */
export type ShutdownSummary = RouteResponse<typeof stopRoute>;

const eventSchema = z
  .object({
    seq: z.int(),
    runId: z.string(),
    at: z.number(),
    type: z.string(),
    rootPid: z.int().nullable(),
    descendants: z.int(),
    data: z.record(z.string(), z.unknown()),
  })
  .meta({ id: "RunEvent", description: "An entry of the event log of runs." });

/** With `follow`, the response is a stream of the same objects, one per line, until the caller disconnects. */
export const eventsRoute = defineRoute({
  ...endpoints.events,
  summary: "List run events in order of their sequence numbers",
  audience: "session",
  query: z.strictObject({
    after: count.default(0),
    run: z.string().optional(),
    limit: pageLimit(),
    follow: flag.optional(),
  }),
  response: z.object({
    events: z.array(eventSchema),
    /** The `after` of the next page. */
    after: z.int(),
    /** The store was rolled back behind the requested number, so events may be missing. */
    gap: z.boolean(),
  }),
});

export const listGatewaysRoute = defineRoute({
  ...endpoints.listGateways,
  summary: "List the gateways that use the same store",
  audience: "operator",
  response: z.object({ gateways: z.array(gatewaySchema) }),
});

export const healthRoute = defineRoute({
  ...endpoints.health,
  summary: "Get samples of this gateway of the last day, and what it cleaned up and reconciled",
  audience: "operator",
  response: z.object({
    /** One a minute since the gateway's start, the oldest first, and one of now. Counters count from its start. */
    samples: z.array(
      z.object({
        at: z.number(),
        /** Runs that the gateway holds. */
        runs: z.int(),
        spawned: z.int(),
        ended: z.int(),
        cleaned: z.int(),
        /** Writes that wait to be repeated. */
        backlog: z.int(),
        renewalMs: z.number(),
        memoryBytes: z.number(),
        cpuMs: z.number(),
      }),
    ),
    /** Processes that were ended besides the leader of their run, by how they were ended. */
    cleaned: z.object({ pid: z.int(), pgid: z.int(), cgroup: z.int(), job: z.int() }),
    /** The newest reconcile decisions since the gateway's start, the newest first. */
    reconciled: z.array(
      z.object({
        runId: z.string(),
        at: z.number(),
        action: z.string(),
        why: z.string(),
        by: z.string(),
        from: z.string(),
      }),
    ),
  }),
});

export const doctorRoute = defineRoute({
  ...endpoints.doctor,
  summary: "Check everything that this gateway depends on, as `holdfast doctor` does",
  audience: "operator",
  response: z.object({
    /** Nothing is `bad`. */
    ok: z.boolean(),
    checks: z.array(
      doctorCheckSchema.meta({
        id: "DoctorCheck",
        description: "The result of a check, and what to do about it.",
      }),
    ),
  }),
});

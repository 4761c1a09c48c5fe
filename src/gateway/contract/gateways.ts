import { z } from "zod";
import type { GatewayWithStatus } from "../../store/gateways/status.js";
import { endpoints } from "../../api/endpoints.js";
import { emptyObject } from "../../api/routes/common.js";
import { defineRoute } from "../../api/route.js";

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

import { z } from "zod";
import type { PresentGateway } from "../../store/gateway-presence.js";
import { addresses } from "./addresses.js";
import { nothing } from "./common.js";
import { route } from "./route.js";

const gatewayShape: z.ZodType<PresentGateway> = z.object({
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

export const listGateways = route({
  ...addresses.listGateways,
  summary: "Every gateway that keeps its runs in this one's store",
  audience: "operator",
  params: nothing,
  query: nothing,
  body: nothing,
  answer: z.object({ gateways: z.array(gatewayShape) }),
});

import { z } from "zod";
import { CHANNEL_KINDS } from "../../config/channels.js";
import { endpoints } from "../endpoints.js";
import { emptyObject } from "./common.js";
import { defineRoute } from "../route.js";

const channelSchema = z.object({
  name: z.string(),
  kind: z.enum(CHANNEL_KINDS),
  /** As far as it may be shown. */
  where: z.string(),
});

export const listChannelsRoute = defineRoute({
  ...endpoints.listChannels,
  summary: "Where notifications can go",
  audience: "operator",
  params: emptyObject,
  query: emptyObject,
  body: emptyObject,
  response: z.object({ channels: z.array(channelSchema) }),
});

export const testChannelRoute = defineRoute({
  ...endpoints.testChannel,
  summary: "Send one notification to a channel, once, and say what came of it",
  audience: "operator",
  params: z.object({ name: z.string().min(1).max(200) }),
  query: emptyObject,
  /** `address`: whom within the channel; left out: as it is configured. */
  body: z.strictObject({ address: z.string().min(1).max(500).optional() }),
  response: z.object({
    channel: channelSchema,
    notificationId: z.string(),
    delivered: z.boolean(),
    /** What the receiver calls it; null: it has no name for it, or has not got it. */
    receipt: z.string().nullable(),
    /** Null: it was delivered. */
    failure: z
      .object({
        reason: z.string(),
        /** Trying again cannot help. */
        permanent: z.boolean(),
        /** What the receiver asked for. */
        retryAfterMs: z.number().nullable(),
      })
      .nullable(),
  }),
});

import { z } from "zod";
import { CHANNEL_KINDS } from "../../config/channels.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";

const channelSchema = z
  .object({
    name: z.string(),
    kind: z.enum(CHANNEL_KINDS),
    /** The receiver, without secrets. */
    where: z.string(),
  })
  .meta({ id: "Channel", description: "A configured receiver of notifications." });

export const listChannelsRoute = defineRoute({
  ...endpoints.listChannels,
  summary: "List the configured channels",
  audience: "operator",
  response: z.object({ channels: z.array(channelSchema) }),
});

export const testChannelRoute = defineRoute({
  ...endpoints.testChannel,
  summary: "Send a test notification to a channel, without retries",
  audience: "operator",
  params: z.object({ name: z.string().min(1).max(200) }),
  /** `address`: the chat or thread within the channel. Default: the configured one. */
  body: z.strictObject({ address: z.string().min(1).max(500).optional() }),
  response: z.object({
    channel: channelSchema,
    notificationId: z.string(),
    delivered: z.boolean(),
    /** The receiver's own id of the message. Null: it has none, or the message was not delivered. */
    receipt: z.string().nullable(),
    /** Null: the notification was delivered. */
    failure: z
      .object({
        reason: z.string(),
        /** A retry cannot succeed. */
        permanent: z.boolean(),
        /** The delay that the receiver asked for. */
        retryAfterMs: z.number().nullable(),
      })
      .nullable(),
  }),
});

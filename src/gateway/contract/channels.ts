import { z } from "zod";
import { CHANNEL_KINDS } from "../../channels/entry.js";
import { addresses } from "./addresses.js";
import { nothing } from "./common.js";
import { route } from "./route.js";

const channelShape = z.object({
  name: z.string(),
  kind: z.enum(CHANNEL_KINDS),
  /** As far as it may be shown. */
  where: z.string(),
});

export const listChannels = route({
  ...addresses.listChannels,
  summary: "Where notifications can go",
  audience: "operator",
  params: nothing,
  query: nothing,
  body: nothing,
  answer: z.object({ channels: z.array(channelShape) }),
});

export const testChannel = route({
  ...addresses.testChannel,
  summary: "Send one notification to a channel, once, and say what came of it",
  audience: "operator",
  params: z.object({ name: z.string().min(1).max(200) }),
  query: nothing,
  /** `address`: whom within the channel; left out: as it is configured. */
  body: z.strictObject({ address: z.string().min(1).max(500).optional() }),
  answer: z.object({
    channel: channelShape,
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

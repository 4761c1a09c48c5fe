import { NotFound } from "../../errors.js";
import { newMessageId } from "../../model/ids.js";
import type { Notification } from "../../model/outbox.js";
import { DeliveryFailed } from "../../tasks/delivery-attempt.js";
import type { RouteHandlers } from "../../api/contract.js";
import { describeChannels } from "../../channels/check-channel.js";
import type { HandlerDeps } from "./handler-deps.js";

export function createChannelHandlers(
  deps: Pick<HandlerDeps, "channels" | "deliver" | "assertAcceptingRuns">,
) {
  return {
    listChannels: async () => ({ channels: describeChannels(deps.channels) }),

    testChannel: async ({ params: { name }, body: { address = null } }, { disconnected }) => {
      deps.assertAcceptingRuns();
      const channel = describeChannels(deps.channels).find((each) => each.name === name);
      if (channel === undefined)
        throw new NotFound(`channel ${name}; \`holdfast notify channels\` lists all`);
      const notification = testNotification(name);
      const tested = { channel, notificationId: notification.id };
      try {
        const target = { kind: "channel", channel: name, address } as const;
        const answer = await deps.deliver(target, notification, disconnected);
        const receipt = answer.status === "delivered" ? answer.receipt : null;
        return { ...tested, delivered: answer.status === "delivered", receipt, failure: null };
      } catch (error) {
        if (!(error instanceof DeliveryFailed)) throw error;
        const { message: reason, permanent, retryAfterMs } = error;
        return { ...tested, delivered: false, receipt: null, failure: { reason, permanent, retryAfterMs } };
      }
    },
  } satisfies Partial<RouteHandlers>;
}

/** A notification that is recognizable as a test and belongs to no task. */
function testNotification(channel: string): Notification {
  const id = newMessageId();
  return {
    id: `test:${id}`,
    taskId: "test",
    kind: "terminal",
    status: "succeeded",
    outcome: "succeeded",
    label: "test",
    runtime: "external",
    summary: `The channel ${channel} works.`,
    error: null,
    at: Date.now(),
    text: `Holdfast: a test. The channel ${channel} works.`,
  };
}

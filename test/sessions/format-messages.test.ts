import { expect, test } from "vitest";
import type { SessionMessage } from "../../src/model/session.js";
import { findDelivered, packMessages } from "../../src/sessions/history.js";

const nobody = { get: async () => null };

function notice(seq: number): SessionMessage {
  return {
    ...{ id: `msg_${seq}`, sessionId: "ses_a", seq, role: "system", fromSessionId: null, actor: "tasks" },
    ...{ text: "Task “make test” succeeded: ok", runId: null, cause: `task-terminal:${seq}`, at: 0 },
    ...{ deliver: "next-turn", turnId: null, inVain: 0, deliveredAt: null },
  };
}

test("of messages with the same text, those that did not fit are not delivered", async () => {
  const waiting = [1, 2, 3, 4].map(notice);
  const { messages, text } = await packMessages(waiting, nobody, 200);
  expect(messages).toEqual(["msg_1", "msg_2"]);
  expect(await findDelivered(`${text}go on`, waiting, nobody)).toEqual(messages);
});

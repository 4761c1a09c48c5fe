import { errnoCode } from "../../home/errno.js";
import { type ConnectionListener, connectToSocket, MessageConnection } from "./connection.js";
import type { MessageFields } from "./message-codec.js";

/** How the other side took the first frame. Only in `answered` does the connection live on. */
export type HandshakeResult =
  | { readonly type: "answered" }
  | { readonly type: "failed"; readonly failure: MessageFields<"failed"> }
  | { readonly type: "refused"; readonly refusal: MessageFields<"refused"> }
  /** The connection never came to be, or ended first. */
  | { readonly type: "closed"; readonly error: Error | null }
  | { readonly type: "silent" };

export interface HandshakeOptions<N extends "welcome" | "launcher"> {
  readonly path: string;
  readonly frame: Buffer;
  readonly expected: N;
  readonly timeoutMs: number;
  /** Called at once with the answer, so that what follows in the same packet reaches the new listener. */
  readonly onAnswer: (answer: MessageFields<N>, connection: MessageConnection) => ConnectionListener;
}

/** A full backlog is emptied within microseconds; many starts at once can still meet it. */
const BACKLOG_RETRY_MS = 2;

/** Connect, send the first frame and wait for the answer to it. */
export async function handshake<N extends "welcome" | "launcher">(
  options: HandshakeOptions<N>,
): Promise<HandshakeResult> {
  const deadline = performance.now() + options.timeoutMs;
  for (;;) {
    const answer = await tryHandshake(options);
    // connect(2) on a local socket does not wait for room in the backlog. Nothing has been sent yet.
    const backlogFull = answer.type === "closed" && errnoCode(answer.error) === "EAGAIN";
    if (!backlogFull || performance.now() > deadline) return answer;
    await new Promise((resolve) => setTimeout(resolve, BACKLOG_RETRY_MS));
  }
}

function tryHandshake<N extends "welcome" | "launcher">(
  options: HandshakeOptions<N>,
): Promise<HandshakeResult> {
  return new Promise((resolve) => {
    const settle = (answer: HandshakeResult): void => {
      clearTimeout(timer);
      if (answer.type !== "answered") connection.close();
      resolve(answer);
    };
    const timer = setTimeout(() => settle({ type: "silent" }), options.timeoutMs);
    const connection = new MessageConnection(connectToSocket(options.path), {
      message(message) {
        if (message.name === "failed") return settle({ type: "failed", failure: message });
        if (message.name === "refused") return settle({ type: "refused", refusal: message });
        if (message.name !== options.expected) return;
        connection.listener = options.onAnswer(message as MessageFields<N>, connection);
        settle({ type: "answered" });
      },
      closed: (error) => settle({ type: "closed", error }),
    });
    connection.send(options.frame);
  });
}

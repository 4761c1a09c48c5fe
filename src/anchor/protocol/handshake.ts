import { errnoCode } from "../../home/errno.js";
import { type ConnectionListener, connectToSocket, MessageConnection } from "./connection.js";
import type { MessageFields } from "./message-codec.js";

/** The answer to the first frame. The connection stays open only in the case `answered`. */
export type HandshakeResult =
  | { readonly type: "answered" }
  | { readonly type: "failed"; readonly failure: MessageFields<"failed"> }
  | { readonly type: "refused"; readonly refusal: MessageFields<"refused"> }
  /** The connection failed or ended before an answer. */
  | { readonly type: "closed"; readonly error: Error | null }
  | { readonly type: "silent" };

export interface HandshakeOptions<N extends "welcome" | "launcher"> {
  readonly path: string;
  readonly frame: Buffer;
  readonly expected: N;
  readonly timeoutMs: number;
  /** Called synchronously with the answer, so that later messages of the same packet reach the new listener. */
  readonly onAnswer: (answer: MessageFields<N>, connection: MessageConnection) => ConnectionListener;
}

/** A full backlog is drained within microseconds, but many simultaneous starts can fill it. */
const BACKLOG_RETRY_MS = 2;

/** Connects, sends the first frame and waits for the answer. */
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

import { connectTo } from "./connect.js";
import { errorCode } from "./error-code.js";
import type { Content } from "./message.js";
import { Wire, type WireListener } from "./wire.js";

/** How the other side took the first frame. Only in `answered` does the connection live on. */
export type Answer =
  | { readonly type: "answered" }
  | { readonly type: "failed"; readonly failure: Content<"failed"> }
  | { readonly type: "refused"; readonly refusal: Content<"refused"> }
  /** The connection never came to be, or ended first. */
  | { readonly type: "closed"; readonly error: Error | null }
  | { readonly type: "silent" };

export interface Greeting<N extends "welcome" | "launcher"> {
  readonly path: string;
  readonly frame: Buffer;
  readonly expected: N;
  readonly withinMs: number;
  /** Called at once with the answer, so that what follows in the same packet reaches the new listener. */
  readonly next: (answer: Content<N>, wire: Wire) => WireListener;
}

/** A full backlog is emptied within microseconds; many starts at once can still meet it. */
const BACKLOG_RETRY_MS = 2;

/** Connect, send the first frame and wait for the answer to it. */
export async function greet<N extends "welcome" | "launcher">(greeting: Greeting<N>): Promise<Answer> {
  const deadline = performance.now() + greeting.withinMs;
  for (;;) {
    const answer = await greetOnce(greeting);
    // connect(2) on a local socket does not wait for room in the backlog. Nothing has been sent yet.
    const crowded = answer.type === "closed" && errorCode(answer.error) === "EAGAIN";
    if (!crowded || performance.now() > deadline) return answer;
    await new Promise((resolve) => setTimeout(resolve, BACKLOG_RETRY_MS));
  }
}

function greetOnce<N extends "welcome" | "launcher">(greeting: Greeting<N>): Promise<Answer> {
  return new Promise((resolve) => {
    const settle = (answer: Answer): void => {
      clearTimeout(timer);
      if (answer.type !== "answered") wire.close();
      resolve(answer);
    };
    const timer = setTimeout(() => settle({ type: "silent" }), greeting.withinMs);
    const wire = new Wire(connectTo(greeting.path), {
      message(message) {
        if (message.name === "failed") return settle({ type: "failed", failure: message });
        if (message.name === "refused") return settle({ type: "refused", refusal: message });
        if (message.name !== greeting.expected) return;
        wire.listener = greeting.next(message as Content<N>, wire);
        settle({ type: "answered" });
      },
      closed: (error) => settle({ type: "closed", error }),
    });
    wire.send(greeting.frame);
  });
}

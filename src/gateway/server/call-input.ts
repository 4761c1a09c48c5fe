import { BadInput, StdinClosed } from "../../errors.js";
import type { Run } from "../../supervisor/api.js";
import { retryWhileFenced } from "../../supervisor/when-steering.js";
import { type AttachServerMessage, decodeFrame } from "../../api/attach-frames.js";

export interface ForegroundInputDeps {
  readonly runId: string;
  /** Null: nobody takes the caller's input. */
  readonly run: Pick<Run, "write" | "closeStdin"> | null;
  readonly disconnected: AbortSignal;
  readonly send: (message: AttachServerMessage) => void;
  /** So that the caller comes back, and sends again what is not accepted. */
  readonly disconnect: () => void;
}

/** A caller's input and its end, in the order they came. While the run may not be steered, they wait. */
export class ForegroundInput {
  readonly #deps: ForegroundInputDeps;
  #last: Promise<void> = Promise.resolve();

  constructor(deps: ForegroundInputDeps) {
    this.#deps = deps;
  }

  async write(data: Buffer): Promise<void> {
    const { stream, offset, bytes } = decodeFrame(data);
    if (stream !== "stdin") throw new BadInput("frame", `a caller sends stdin, not ${stream}`);
    const { runId, run, send } = this.#deps;
    await this.#enqueue(async () => {
      if (run === null) throw new StdinClosed(runId, "nobody takes its caller's input any more");
      await run.write(bytes, offset);
      send({ type: "accepted", offset: offset + bytes.length });
    });
  }

  async end(): Promise<void> {
    await this.#enqueue(async () => this.#deps.run?.closeStdin());
  }

  async #enqueue(act: () => Promise<void>): Promise<void> {
    const { disconnected, send, disconnect } = this.#deps;
    const done = this.#last.then(() => retryWhileFenced(act, disconnected));
    this.#last = done.catch(() => undefined);
    await done.catch((error: unknown) => {
      if (error instanceof StdinClosed || error instanceof BadInput)
        send({ type: "unread", message: error.message });
      else disconnect();
    });
  }
}

import { BadInput, StdinClosed } from "../../errors.js";
import type { Run } from "../../supervisor/api.js";
import { whenSteering } from "../../supervisor/when-steering.js";
import { type ToViewer, unframe } from "../attach-frames.js";

export interface CallInputParts {
  readonly runId: string;
  /** Null: nobody takes the caller's input. */
  readonly run: Pick<Run, "write" | "closeStdin"> | null;
  readonly left: AbortSignal;
  readonly tell: (message: ToViewer) => void;
  /** So that the caller comes back, and sends again what is not accepted. */
  readonly hangUp: () => void;
}

/** A caller's input and its end, in the order they came. While the run may not be steered, they wait. */
export class CallInput {
  readonly #parts: CallInputParts;
  #last: Promise<void> = Promise.resolve();

  constructor(parts: CallInputParts) {
    this.#parts = parts;
  }

  async take(data: Buffer): Promise<void> {
    const { stream, offset, bytes } = unframe(data);
    if (stream !== "stdin") throw new BadInput("frame", `a caller sends stdin, not ${stream}`);
    const { runId, run, tell } = this.#parts;
    await this.#next(async () => {
      if (run === null) throw new StdinClosed(runId, "nobody takes its caller's input any more");
      await run.write(bytes, offset);
      tell({ type: "accepted", offset: offset + bytes.length });
    });
  }

  async end(): Promise<void> {
    await this.#next(async () => this.#parts.run?.closeStdin());
  }

  async #next(act: () => Promise<void>): Promise<void> {
    const { left, tell, hangUp } = this.#parts;
    const done = this.#last.then(() => whenSteering(act, left));
    this.#last = done.catch(() => undefined);
    await done.catch((error: unknown) => {
      if (error instanceof StdinClosed || error instanceof BadInput)
        tell({ type: "unread", message: error.message });
      else hangUp();
    });
  }
}

// A stranger on a number of our choosing (see ../native/reuse.c), as the driver in the namespace sees it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export class Stranger {
  #child;
  #lines;
  constructor(child) {
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  static async make(helper, ...args) {
    const child = spawn(helper, args, { stdio: ["pipe", "pipe", "inherit"], env: {} });
    const stranger = new Stranger(child);
    const { value } = await stranger.#lines.next();
    if (value === undefined) throw new Error(`no stranger: ${args.join(" ")}`);
    const { tries, sameNumber, pid, startTime, uniqueId, recordedUniqueId } = JSON.parse(value);
    stranger.effort = { tries, sameNumber };
    /** Who is there now. */
    stranger.identity = { pid, startTime, uniqueId };
    /** Who was there before, in the same tick. */
    stranger.recorded = { pid, startTime, uniqueId: recordedUniqueId };
    return stranger;
  }

  /** Whether it lives and what it noticed; then it goes. */
  async fate() {
    this.#child.stdin.end();
    const { value } = await this.#lines.next();
    await once(this.#child, "close");
    return JSON.parse(value);
  }
}

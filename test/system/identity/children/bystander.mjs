// A bystander with a chosen pid (see ../native/reuse.c).
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export class Bystander {
  #child;
  #lines;
  constructor(child) {
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  static async make(helper, ...args) {
    const child = spawn(helper, args, { stdio: ["pipe", "pipe", "inherit"], env: {} });
    const bystander = new Bystander(child);
    const { value } = await bystander.#lines.next();
    if (value === undefined) throw new Error(`no bystander was started: ${args.join(" ")}`);
    const { tries, sameNumber, pid, startTime, uniqueId, recordedUniqueId } = JSON.parse(value);
    bystander.effort = { tries, sameNumber };
    /** The process that has the pid now. */
    bystander.identity = { pid, startTime, uniqueId };
    /** The process that had it before, started in the same clock tick. */
    bystander.recorded = { pid, startTime, uniqueId: recordedUniqueId };
    return bystander;
  }

  /** True if it is alive and which signals it received; then it ends. */
  async fate() {
    this.#child.stdin.end();
    const { value } = await this.#lines.next();
    await once(this.#child, "close");
    return JSON.parse(value);
  }
}

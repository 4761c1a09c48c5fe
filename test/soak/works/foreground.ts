import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { buffer } from "node:stream/consumers";
import type { LiveProcess } from "../../support/live-processes.js";
import { readProcess } from "../../support/live-processes.js";
import { endedRecord, readOutput } from "./recorded-run.js";
import { Work, type WorkEnd } from "./work.js";

/** `holdfast run`: a command in the foreground of a caller. */
export class ForegroundWork extends Work {
  readonly kind = "run";
  #caller: ChildProcess | null = null;
  #output: Promise<Buffer> = Promise.resolve(Buffer.alloc(0));
  #complaint: Promise<Buffer> = Promise.resolve(Buffer.alloc(0));
  /** A fault killed the caller. */
  callerKilled = false;

  protected async start(): Promise<void> {
    const { world, token, argv } = this;
    const words = [
      "run",
      "--on-escape",
      "sweep",
      "--grace",
      "300ms",
      "--label",
      `soak=${token}`,
      "-e",
      `SOAK_WORK=${token}`,
    ];
    const caller = spawn(world.command, [...words, "--", ...argv], {
      stdio: ["ignore", "pipe", "pipe"],
      env: world.env,
      cwd: world.files,
    });
    this.#caller = caller;
    this.#output = buffer(caller.stdout);
    this.#complaint = buffer(caller.stderr);
    const ended = once(caller, "close");
    while (this.executions().length === 0)
      if ((await Promise.race([ended, new Promise((done) => setTimeout(done, 5, null))])) !== null) break;
    if (this.executions().length === 0) throw new Error((await this.#complaint).toString().trim());
  }

  get runId(): string | null {
    return this.executions().at(-1)?.runId ?? null;
  }

  caller(): LiveProcess | null {
    const caller = this.#caller;
    return caller?.pid === undefined || caller.exitCode !== null || caller.signalCode !== null
      ? null
      : readProcess(caller.pid);
  }

  async end(): Promise<WorkEnd | null> {
    const record = await endedRecord(this);
    const caller = this.#caller;
    if (caller !== null && caller.exitCode === null && caller.signalCode === null)
      await once(caller, "close");
    if (record === null) return null;
    const { reason = "none", code = null } = record.exit ?? {};
    if (this.callerKilled) return { reason, code, ...(await readOutput(this, record.runId)) };
    const output = await this.#output;
    if (reason === "exit" && caller?.exitCode !== this.exitCode)
      throw new Error(
        `wrong end: the caller ended with ${caller?.exitCode ?? caller?.signalCode}, the command with ${code}: ${(await this.#complaint).toString().trim()}`,
      );
    return { reason, code, output, declaredShort: false };
  }

  override tidy(): void {
    this.#caller?.kill("SIGKILL");
    super.tidy();
  }
}

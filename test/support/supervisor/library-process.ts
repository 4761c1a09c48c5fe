import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { FirstStop } from "../../../src/anchor/host-interface.js";
import type { Survivor } from "../../../src/model/process.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord, RunStateName } from "../../../src/model/run.js";
import type { CommandInput, SpawnOptions } from "../../../src/supervisor/api.js";
import type { CancelOptions } from "../../../src/supervisor/check-options.js";
import { libraryPath, type Sandbox } from "../sandbox.js";
import { CommandedProcess } from "./commanded-process.js";

interface Replies {
  opened: object;
  started: { readonly runId: string; readonly record: RunRecord };
  output: { readonly stream: string; readonly text: string };
  recovered: { readonly runIds: readonly string[] };
  looked: {
    readonly state: RunStateName;
    readonly survivors: readonly Survivor[];
    readonly firstStop: FirstStop | null;
    readonly record: RunRecord;
  };
  ended: { readonly record: RunRecord };
  listed: { readonly runs: readonly RunRecord[]; readonly events: readonly RunEvent[] };
  /** After `ended`: all output of the run was sent. */
  silent: object;
  closed: object;
  problem: { readonly message: string };
  failed: { readonly message: string };
}

const script = fileURLToPath(new URL("children/library-process.mjs", import.meta.url));
const instanceId = "tree";

/** A process that uses the library and may be killed (see `children/library-process.mjs`). */
export class LibraryProcess extends CommandedProcess<Replies> {
  /** Opens the sandbox's state directory. */
  static async open(sandbox: Sandbox): Promise<LibraryProcess> {
    const child = new LibraryProcess(sandbox, [process.execPath, script, libraryPath]);
    child.order("open", { home: sandbox.home, instanceId });
    return child.orKill(child.receive("opened"));
  }

  async spawn(input: CommandInput, options: SpawnOptions): Promise<Replies["started"]> {
    this.order("spawn", { input, options });
    return this.receive("started");
  }

  cancel(options: CancelOptions): void {
    this.order("cancel", { options });
  }

  write(data: string): void {
    this.order("write", { data });
  }

  async inspect(): Promise<Replies["looked"]> {
    this.order("look");
    return this.receive("looked");
  }

  async list(): Promise<Replies["listed"]> {
    this.order("list");
    return this.receive("listed");
  }

  /** Problems that the library reported so far. */
  get problems(): string[] {
    return this.received("problem").map(({ message }) => message);
  }

  /** Closes the library; then the process must end by itself without a message. */
  async close(): Promise<void> {
    this.order("close");
    await this.receive("closed");
    expect(await this.finish()).toEqual({ code: 0, stderr: "" });
  }
}

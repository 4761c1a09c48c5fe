import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaults } from "../../defaults.js";
import type { AcpClosed } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { Run, SpawnOptions, Supervisor } from "../../supervisor/api.js";
import type { Clock } from "../../async/clock.js";
import { systemClock } from "../../async/clock.js";
import { removeAgentTmpdir } from "./agent-tmpdir.js";
import { addExitReason } from "./exit-reason.js";
import { AcpConnection, type ConnectionState } from "../wire/connection.js";
import type { ConnectionHandlers } from "../wire/handlers.js";
import { StderrTail } from "../wire/stderr-tail.js";

export interface AdapterOptions extends Pick<
  SpawnOptions,
  | "env"
  | "inherit"
  | "allowEnv"
  | "cwd"
  | "labels"
  | "graceMs"
  | "ownerLossMs"
  | "runId"
  | "sessionKey"
  | "sessionId"
  | "agentId"
  | "backendId"
> {
  readonly argv: readonly string[];
  readonly handlers: ConnectionHandlers;
  /** Its TMPDIR, which is removed when the run has ended. Default: a new one. */
  readonly tmpdir?: string;
  readonly clock?: Clock;
  /** How long it may take to leave by itself once its input or its output has ended. */
  readonly leaveMs?: number;
}

type AdapterDeps = Pick<AdapterOptions, "handlers" | "clock" | "leaveMs">;

/** Where an earlier process stood with a run that is still going. */
export interface AdapterResumption {
  readonly state: ConnectionState;
  /** The offset up to which the effects of its frames were kept. */
  readonly startAt: number;
  readonly tmpdir: string;
}

/** How an adapter ended: what the connection says, and what became of the processes. */
export interface AdapterEnd {
  readonly closed: AcpClosed;
  readonly record: RunRecord;
  /** Why its TMPDIR could not be removed; null: it was. */
  readonly leftover: unknown;
}

/**
 * An ACP agent: a run like any other, and the connection over its stdin and stdout. When the connection is over, for
 * whatever reason, the run is terminated; when the run is over, so is the connection.
 *
 * Who keeps adapters over restarts has to keep, in one place, what `handlers` are given (what comes with its `end`, what
 * goes as the frame that is on its way) and `tmpdir`: that is what a `Resumption` is made of.
 */
export class Adapter implements AsyncDisposable {
  readonly run: Run;
  readonly connection: AcpConnection;
  readonly stderr = new StderrTail();
  readonly tmpdir: string;
  /** When the connection is closed, every process is gone and the TMPDIR was seen to. Rejects when the run was let go of. */
  readonly ended: Promise<AdapterEnd>;
  readonly #clock: Clock;
  readonly #leaveMs: number;

  constructor(run: Run, tmp: string, options: AdapterDeps, resumption?: AdapterResumption) {
    const { handlers, clock, leaveMs = defaults.acpLeaveMs } = options;
    this.run = run;
    this.tmpdir = tmp;
    this.#clock = clock ?? systemClock;
    this.#leaveMs = leaveMs;
    this.connection = new AcpConnection({
      source: (signal) =>
        run.follow({ streams: ["stdout"], offsets: { stdout: resumption?.startAt ?? 0 }, signal }),
      startAt: resumption?.startAt ?? 0,
      write: (bytes) => run.write(bytes),
      ack: (offset) => run.ack("stdout", offset),
      handlers,
      ...(clock === undefined ? {} : { clock }),
      stdinAccepted: run.stdinAccepted,
      ...(resumption === undefined ? {} : { restored: resumption.state }),
    });
    this.ended = this.#awaitEnd(this.#drainStderr());
    this.ended.catch(() => undefined);
  }

  /** The end of its input, and some time to leave by itself; then as any run is ended. */
  async close(actor = "acp"): Promise<AdapterEnd> {
    this.run.closeStdin().catch(() => undefined);
    await this.#awaitOwnExit();
    await this.run.cancel({ actor });
    return this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #awaitEnd(drained: Promise<void>): Promise<AdapterEnd> {
    const closed = await this.connection.closed;
    // One that is about to leave closes its output first.
    if (closed.reason === "ended") await this.#awaitOwnExit();
    await this.run.cancel({ actor: `acp: ${closed.reason}` });
    // Rejects when this supervisor lets go of the run: then it goes on elsewhere, and so does its TMPDIR.
    const { record } = await this.run.end();
    await drained;
    const leftover = await removeAgentTmpdir(this.tmpdir);
    return { closed: addExitReason(closed, record.exit, this.stderr.text), record, leftover };
  }

  #awaitOwnExit(): Promise<void> {
    return this.#clock.sleep(this.#leaveMs, this.run.end());
  }

  /** Always: a full stderr pipe would hold the agent back, and its spool keeps only the newest. */
  async #drainStderr(): Promise<void> {
    for await (const { bytes } of this.run.follow({ streams: ["stderr"] })) this.stderr.push(bytes);
    this.stderr.finish();
  }
}

export async function startAdapter(supervisor: Supervisor, options: AdapterOptions): Promise<Adapter> {
  const {
    argv,
    env,
    tmpdir: given,
    handlers: _handlers,
    clock: _clock,
    leaveMs: _leaveMs,
    ...rest
  } = options;
  const tmp = given ?? (await mkdtemp(join(tmpdir(), "hf-acp-")));
  try {
    const run = await supervisor.spawn(
      { io: "pipe", argv },
      {
        ...rest,
        env: { ...env, TMPDIR: tmp },
        kind: "task",
        onEscape: "sweep",
        stdin: "pipe",
        // Nothing may be lost, and nothing is let go of before its effects are kept.
        stdout: { policy: "back-pressure", boundBytes: defaults.acpSpoolBytes },
      },
    );
    return new Adapter(run, tmp, options);
  } catch (error) {
    await removeAgentTmpdir(tmp);
    throw error;
  }
}

/** An adapter that an earlier process started, and whose run is held here now. */
export function resumeAdapter(run: Run, deps: AdapterDeps, resumption: AdapterResumption): Adapter {
  return new Adapter(run, resumption.tmpdir, deps, resumption);
}

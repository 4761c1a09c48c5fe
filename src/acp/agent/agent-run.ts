import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import type { AcpClosed } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { OutputChunk, Run, SpawnOptions, Supervisor } from "../../supervisor/api.js";
import { AcpConnection } from "../wire/connection.js";
import type { ConnectionHandlers, ConnectionState } from "../wire/connection-contract.js";
import { addExitReason, closedConnectionActor, StderrTail } from "./agent-exit.js";

/** The name is known before the directory exists, so the next gateway process can remove it. */
export function agentTmpdirPath(runId: string): string {
  return join(tmpdir(), `hf-acp-${runId}`);
}

/**
 * Call when no process can use the directory. Returns null, or the error if it cannot be removed. Agents may leave
 * directories without write permission, so these are made writable first.
 */
export async function removeAgentTmpdir(path: string | null): Promise<unknown> {
  if (path === null || !path.includes("/hf-acp-")) return null;
  try {
    await removeTree(path).catch(async () => {
      await makeWritable(path);
      await removeTree(path);
    });
    return null;
  } catch (error) {
    return error;
  }
}

function removeTree(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 3 });
}

/** Only directories; links are not followed. */
async function makeWritable(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true }))
    if (entry.isDirectory()) await makeWritable(join(path, entry.name));
}

type AgentSpawnOptions = Pick<
  SpawnOptions,
  "env" | "inherit" | "allowEnv" | "cwd" | "graceMs" | "sessionKey" | "sessionId" | "agentId" | "backendId"
>;

interface AgentRunDeps {
  readonly handlers: ConnectionHandlers;
  /** Time to exit by itself after the input or output ended. */
  readonly ownExitMs: number;
}

export interface AgentRunOptions extends AgentSpawnOptions, AgentRunDeps {
  readonly argv: readonly string[];
  /** Also names the agent's TMPDIR, which is removed when the run has ended. */
  readonly runId: string;
}

/** The state in which an earlier gateway process left a run. */
interface AgentResumption {
  readonly state: ConnectionState;
  /** The effects of the frames before this offset are stored. */
  readonly startAt: number;
}

export interface AgentEnd {
  readonly closed: AcpClosed;
  readonly record: RunRecord;
  /** Why the TMPDIR could not be removed; null: it was. */
  readonly leftover: unknown;
}

/**
 * The run of an ACP agent and the connection over its stdin and stdout. The run is stopped when the connection closes,
 * and the connection closes when the run ends.
 *
 * To resume after a restart, the caller stores `tmpdir` and what the handlers get: received data with its `end`, and the
 * frame that is being sent. `AgentResumption` is made of these.
 */
export class AgentRun {
  readonly run: Run;
  readonly connection: AcpConnection;
  readonly stderr = new StderrTail();
  readonly tmpdir: string;
  /** Resolves when the connection is closed, every process is gone and the TMPDIR is removed. Rejects if the run was detached. */
  readonly ended: Promise<AgentEnd>;
  readonly #ownExitMs: number;

  /** `resumption`: to continue an agent that an earlier gateway process started. */
  constructor(run: Run, tmp: string, deps: AgentRunDeps, resumption?: AgentResumption) {
    this.run = run;
    this.tmpdir = tmp;
    this.#ownExitMs = deps.ownExitMs;
    const startAt = resumption?.startAt ?? 0;
    this.connection = new AcpConnection({
      source: (signal) => run.follow({ streams: ["stdout"], offsets: { stdout: startAt }, signal }),
      startAt,
      write: (bytes) => run.write(bytes),
      ack: (offset) => run.ack("stdout", offset),
      handlers: deps.handlers,
      stdinAccepted: run.stdinAccepted,
      ...(resumption === undefined ? {} : { restored: resumption.state }),
    });
    this.ended = this.#awaitEnd(this.#drainStderr());
    this.ended.catch(() => undefined);
  }

  /** Closes stdin, waits for the agent to exit by itself, then stops the run. */
  async close(actor: string): Promise<AgentEnd> {
    this.run.closeStdin().catch(() => undefined);
    await this.#awaitOwnExit();
    await this.run.cancel({ actor });
    return this.ended;
  }

  async #awaitEnd(drained: Promise<void>): Promise<AgentEnd> {
    const closed = await this.connection.closed;
    // An agent that is exiting closes its output first.
    if (closed.reason === "ended") await this.#awaitOwnExit();
    await this.run.cancel({ actor: closedConnectionActor(closed.reason) });
    // Rejects if this supervisor detaches from the run: then the run continues elsewhere and needs its TMPDIR.
    const { record } = await this.run.end();
    await drained;
    const leftover = await removeAgentTmpdir(this.tmpdir);
    return { closed: addExitReason(closed, record.exit, this.stderr.text), record, leftover };
  }

  #awaitOwnExit(): Promise<void> {
    return systemClock.sleep(this.#ownExitMs, this.run.end());
  }

  /** A full stderr pipe would block the agent, and the spool keeps only the newest output. */
  async #drainStderr(): Promise<void> {
    for await (const { bytes } of this.run.follow({ streams: ["stderr"] })) this.stderr.push(bytes);
    this.stderr.finish();
  }
}

export async function startAgent(
  supervisor: Supervisor,
  { argv, env, handlers, ownExitMs, ...spawnOptions }: AgentRunOptions,
): Promise<AgentRun> {
  const tmp = agentTmpdirPath(spawnOptions.runId);
  // Fails if the directory exists: then it is not ours.
  await mkdir(tmp, { mode: 0o700 });
  try {
    const run = await supervisor.spawn(
      { io: "pipe", argv },
      {
        ...spawnOptions,
        // Programs of Windows read TEMP and TMP.
        env: { ...env, TMPDIR: tmp, ...(process.platform === "win32" ? { TEMP: tmp, TMP: tmp } : {}) },
        kind: "task",
        onEscape: "sweep",
        stdin: "pipe",
        // No frame may be lost, and none is acknowledged before its effects are stored.
        stdout: { policy: "back-pressure", boundBytes: defaults.acpSpoolBytes },
      },
    );
    return new AgentRun(run, tmp, { handlers, ownExitMs });
  } catch (error) {
    await removeAgentTmpdir(tmp);
    throw error;
  }
}

/** The stored output of an ended run, from an offset on. */
export async function* readOutputToEnd(
  supervisor: Supervisor,
  runId: string,
  from: number,
): AsyncGenerator<OutputChunk, void, undefined> {
  for (let offset = from; ;) {
    const chunk = await supervisor.readOutput(runId, "stdout", { offset, maxBytes: defaults.followBytes });
    if (chunk.bytes.length === 0 && chunk.offset <= offset) return;
    yield chunk;
    offset = chunk.offset + chunk.bytes.length;
  }
}

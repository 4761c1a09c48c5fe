import type { Survivor } from "../../model/process.js";
import { defaults } from "../../defaults.js";
import type { LeftoverProcess } from "../../model/acp.js";
import { runIdFrom } from "../../model/ids.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { lastBytesAsText, redactedExcerpt } from "../../text/truncate.js";
import { REQUEST_REFUSED, RESOURCE_NOT_FOUND, RpcFailure } from "./rpc-failure.js";

/** What an agent wants to run. */
export interface TerminalSpec {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Of those, the ones that may make programs load code. */
  readonly allowEnv: readonly string[];
  readonly inherit?: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly outputBytes: number;
}

/** Whose it is. */
export interface TerminalOwner {
  readonly sessionId: string;
  readonly sessionKey: string;
  readonly agentId: string | null;
  /** Of the agent's process: its terminals end with it. */
  readonly agentRunId: string;
  readonly turnId: string;
}

export interface TerminalExitStatus {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

interface Terminal {
  readonly runId: string;
  readonly turnId: string;
  readonly outputBytes: number;
}

export const TERMINAL_BACKEND = "acp-terminal";
/** On every terminal's run: whose it is, and what the next gateway has to know of it. */
export const AGENT_LABEL = "acp.agent";
const SESSION_LABEL = "acp.session";
const TURN_LABEL = "acp.turn";
const OUTPUT_LABEL = "acp.output";
/** A spool forgets by pieces: so much is kept that what may be asked for always is. */
const spoolBytes = (outputBytes: number): number => 2 * Math.max(outputBytes, 64 * 1024);

export function terminalIdOf(runId: string): string {
  return runId.replace(/^run_/, "term_");
}

/** The runs of an agent's terminals that have not ended. */
export function listOpenTerminals(supervisor: Supervisor, agentRunId: string): Promise<readonly RunRecord[]> {
  return supervisor.listRuns({ labels: { [AGENT_LABEL]: agentRunId }, states: OPEN_RUN_STATES });
}

/** The terminals of one agent process: each is a run like any other. */
export class Terminals {
  readonly #supervisor: Supervisor;
  readonly #graceMs: number;
  readonly #open = new Map<string, Terminal>();
  readonly #starting = new Set<Promise<unknown>>();
  #closed = false;

  constructor(supervisor: Supervisor, graceMs: number) {
    this.#supervisor = supervisor;
    this.#graceMs = graceMs;
  }

  get survivors(): readonly Survivor[] {
    return [...this.#open.values()].flatMap(({ runId }) => this.#supervisor.run(runId)?.survivors ?? []);
  }

  /** Those that an earlier process has made, but for what was released. */
  async restore(agentRunId: string, released: ReadonlySet<string>): Promise<void> {
    for (const record of await this.#supervisor.listRuns({ labels: { [AGENT_LABEL]: agentRunId } })) {
      const terminalId = terminalIdOf(record.runId);
      // The agent was never told of one that could not be executed.
      const made = record.exit?.reason !== "spawn-error";
      if (made && !released.has(terminalId)) this.#open.set(terminalId, terminalFromRecord(record));
    }
  }

  /** Whether the run is one of them. */
  ownsRun(runId: string): boolean {
    return this.#open.has(terminalIdOf(runId));
  }

  /** Asked again with the same seed, it is the same one. */
  async create(
    seed: string,
    spec: TerminalSpec,
    owner: TerminalOwner,
  ): Promise<{ readonly terminalId: string }> {
    const starting = this.#create(seed, spec, owner);
    this.#starting.add(starting);
    try {
      return await starting;
    } finally {
      this.#starting.delete(starting);
    }
  }

  async #create(seed: string, spec: TerminalSpec, owner: TerminalOwner) {
    for (let attempt = 1; ; attempt++) {
      const runId = runIdFrom(`${seed} ${attempt}`);
      const before = await this.#supervisor.getRun(runId);
      // No instruction of it ran: a gateway died on the way, or it failed, and does so again.
      if (before?.exit?.reason === "spawn-error") continue;
      if (before === null) await this.#spawn(runId, spec, owner);
      const terminalId = terminalIdOf(runId);
      this.#open.set(terminalId, { runId, turnId: owner.turnId, outputBytes: spec.outputBytes });
      return { terminalId };
    }
  }

  async #spawn(runId: string, spec: TerminalSpec, owner: TerminalOwner): Promise<void> {
    if (this.#closed) throw new RpcFailure(REQUEST_REFUSED, "the agent is being ended");
    if (this.#open.size + this.#starting.size > defaults.acpTerminals)
      throw new RpcFailure(
        REQUEST_REFUSED,
        `${defaults.acpTerminals} terminals are open: release one before another is made`,
      );
    const { argv, outputBytes, ...rest } = spec;
    const { sessionId, sessionKey, agentId, agentRunId, turnId } = owner;
    await this.#supervisor.spawn(
      { io: "pipe", argv },
      {
        ...rest,
        runId,
        sessionId,
        sessionKey,
        ...(agentId === null ? {} : { agentId }),
        backendId: TERMINAL_BACKEND,
        labels: {
          [SESSION_LABEL]: sessionId,
          [AGENT_LABEL]: agentRunId,
          [TURN_LABEL]: turnId,
          [OUTPUT_LABEL]: String(outputBytes),
        },
        kind: "task",
        onEscape: "sweep",
        merge: true,
        stdin: "null",
        stdout: { policy: "keep-newest", boundBytes: spoolBytes(outputBytes) },
        graceMs: this.#graceMs,
      },
    );
  }

  async output(terminalId: string) {
    const { runId, outputBytes } = this.#requireTerminal(terminalId);
    const record = await this.#requireRecord(runId);
    const ended = record.state === "exited";
    const { bytes, cut } = await this.#readOutput(runId, outputBytes);
    const exitStatus = ended ? exitStatusOf(record) : null;
    return { ...lastBytesAsText(bytes, outputBytes, { cut, ended }), exitStatus };
  }

  /** When all of it is gone, not only its first process. Null: this supervisor has let go of it. */
  async waitForExit(terminalId: string): Promise<TerminalExitStatus | null> {
    const { runId } = this.#requireTerminal(terminalId);
    const run = this.#supervisor.run(runId);
    const end = run === null ? null : await run.end().catch(() => null);
    const record = run === null ? await this.#requireRecord(runId) : (end?.record ?? null);
    return record?.state === "exited" ? exitStatusOf(record) : null;
  }

  /** Until it is proven empty. The id stays good. */
  async kill(terminalId: string): Promise<Record<string, never>> {
    const { runId } = this.#requireTerminal(terminalId);
    const { outcome, survivors } = await this.#supervisor.stop(runId, { actor: "acp: terminal/kill" });
    if (outcome === "gone" || outcome === "ended-before") return {};
    const left = survivors.length === 0 ? "" : `: ${survivors.length} processes survive their KILL`;
    throw new RpcFailure(REQUEST_REFUSED, `it is not known to be gone${left}`);
  }

  /** Killed, and forgotten. */
  async release(terminalId: string): Promise<Record<string, never>> {
    const done = await this.kill(terminalId);
    this.#open.delete(terminalId);
    return done;
  }

  /** Those that a turn has made, and that live. */
  async liveProcessesOf(turnId: string): Promise<readonly LeftoverProcess[]> {
    const left: LeftoverProcess[] = [];
    for (const run of this.#liveRuns(turnId)) {
      const members = await run.members().catch(() => []);
      left.push(
        ...members.map(({ identity, command }) => ({ ...identity, command: redactedExcerpt(command) })),
      );
    }
    return left;
  }

  /** Those. Resolves when they are gone, or known to survive. */
  async stopTurn(turnId: string): Promise<void> {
    const actor = "acp: its turn is over";
    await Promise.allSettled(
      this.#liveRuns(turnId).map(({ runId }) => this.#supervisor.stop(runId, { actor })),
    );
  }

  /** All of them, and none is made after that. Resolves when they are gone. */
  async stopAll(actor: string): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#starting);
    await Promise.all(
      this.#liveRuns().map(async (run) => {
        await run.cancel({ actor }).catch(() => undefined);
        // One that is let go of goes on elsewhere, and ends there.
        await run.end().catch(() => undefined);
      }),
    );
  }

  #liveRuns(turnId?: string): readonly Run[] {
    return [...this.#open.values()]
      .filter((terminal) => turnId === undefined || terminal.turnId === turnId)
      .map(({ runId }) => this.#supervisor.run(runId))
      .filter((run) => run !== null);
  }

  #requireTerminal(terminalId: string): Terminal {
    const terminal = this.#open.get(terminalId);
    if (terminal === undefined) throw new RpcFailure(RESOURCE_NOT_FOUND, "there is no such terminal");
    return terminal;
  }

  async #requireRecord(runId: string): Promise<RunRecord> {
    const record = await this.#supervisor.getRun(runId);
    if (record === null)
      throw new RpcFailure(RESOURCE_NOT_FOUND, "what is known of that terminal has been forgotten");
    return record;
  }

  /** What one that never stops writing adds meanwhile is left for the next time. */
  async #readOutput(
    runId: string,
    outputBytes: number,
  ): Promise<{ readonly bytes: Buffer; readonly cut: boolean }> {
    let chunks: Uint8Array[] = [];
    const enough = 2 * spoolBytes(outputBytes);
    let cut = false;
    for (let offset = 0, length = 0; length < enough;) {
      const chunk = await this.#supervisor.readOutput(runId, "stdout", { offset });
      if (chunk.bytes.length === 0) break;
      // The oldest is forgotten while it is read: what came before it is no longer its beginning.
      if (chunk.offset > offset) [chunks, cut] = [[], true];
      chunks.push(chunk.bytes);
      offset = chunk.offset + chunk.bytes.length;
      length += chunk.bytes.length;
    }
    return { bytes: Buffer.concat(chunks), cut };
  }
}

function terminalFromRecord({ runId, labels }: RunRecord): Terminal {
  return {
    runId,
    turnId: labels[TURN_LABEL] ?? "",
    outputBytes: Number(labels[OUTPUT_LABEL] ?? defaults.acpTerminalBytes),
  };
}

function exitStatusOf({ exit }: RunRecord): TerminalExitStatus {
  return { exitCode: exit?.code ?? null, signal: exit?.signal ?? null };
}

import { defaults } from "../../defaults.js";
import type { LeftoverProcess } from "../../model/acp/session-and-turn.js";
import { runIdFrom } from "../../model/ids.js";
import type { Survivor } from "../../model/process.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { redactedExcerpt } from "../../text/redact.js";
import { lastBytesAsText } from "../../text/truncate.js";
import { REQUEST_REFUSED, RESOURCE_NOT_FOUND, RpcFailure } from "../wire/message.js";

interface TerminalSpec {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Variables of `env` that may make programs load code. */
  readonly allowEnv: readonly string[];
  readonly inherit?: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly outputBytes: number;
}

interface TerminalOwner {
  readonly sessionId: string;
  readonly sessionKey: string;
  readonly agentId: string | null;
  /** The agent's run: its terminals end with it. */
  readonly agentRunId: string;
  readonly turnId: string;
}

interface TerminalExitStatus {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

interface Terminal {
  readonly runId: string;
  readonly turnId: string;
  readonly outputBytes: number;
}

export const TERMINAL_BACKEND = "acp-terminal";
/** Labels on the run of a terminal, from which the next gateway process restores it. */
export const AGENT_LABEL = "acp.agent";
const SESSION_LABEL = "acp.session";
const TURN_LABEL = "acp.turn";
const OUTPUT_LABEL = "acp.output";
/** A spool drops whole segments, so it is larger than the output that may be requested. */
const spoolBytes = (outputBytes: number): number => 2 * Math.max(outputBytes, 64 * 1024);

function terminalIdOf(runId: string): string {
  return runId.replace(/^run_/, "term_");
}

/** The terminals of an agent that have not ended. */
export function listOpenTerminals(supervisor: Supervisor, agentRunId: string): Promise<readonly RunRecord[]> {
  return supervisor.listRuns({ labels: { [AGENT_LABEL]: agentRunId }, states: OPEN_RUN_STATES });
}

/** The terminals of one agent process. Each is an ordinary run. */
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

  /** Restores the terminals of an earlier gateway process, without the released ones. */
  async restore(agentRunId: string, released: ReadonlySet<string>): Promise<void> {
    for (const record of await this.#supervisor.listRuns({ labels: { [AGENT_LABEL]: agentRunId } })) {
      const terminalId = terminalIdOf(record.runId);
      // The agent never got the id of a terminal whose command could not be executed.
      const created = record.exit?.reason !== "spawn-error";
      if (created && !released.has(terminalId)) this.#open.set(terminalId, terminalFromRecord(record));
    }
  }

  ownsRun(runId: string): boolean {
    return this.#open.has(terminalIdOf(runId));
  }

  /** A repeated call with the same seed returns the same terminal. */
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
      // Nothing was executed: a gateway died before, or the program cannot be executed.
      if (before?.exit?.reason === "spawn-error") continue;
      if (before === null) await this.#spawn(runId, spec, owner);
      const terminalId = terminalIdOf(runId);
      this.#open.set(terminalId, { runId, turnId: owner.turnId, outputBytes: spec.outputBytes });
      return { terminalId };
    }
  }

  async #spawn(runId: string, spec: TerminalSpec, owner: TerminalOwner): Promise<void> {
    if (this.#closed) throw new RpcFailure(REQUEST_REFUSED, "the agent is being stopped");
    if (this.#open.size + this.#starting.size > defaults.acpTerminals)
      throw new RpcFailure(REQUEST_REFUSED, `${defaults.acpTerminals} terminals are open; release one first`);
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

  /** Resolves when all processes of the terminal are gone. Null: this supervisor was detached from the run. */
  async waitForExit(terminalId: string): Promise<TerminalExitStatus | null> {
    const { runId } = this.#requireTerminal(terminalId);
    const run = this.#supervisor.run(runId);
    const end = run === null ? null : await run.end().catch(() => null);
    const record = run === null ? await this.#requireRecord(runId) : (end?.record ?? null);
    return record?.state === "exited" ? exitStatusOf(record) : null;
  }

  /** Resolves when the terminal is proven empty. Its id stays valid. */
  async kill(terminalId: string): Promise<Record<string, never>> {
    const { runId } = this.#requireTerminal(terminalId);
    const { outcome, survivors } = await this.#supervisor.stop(runId, { actor: "acp: terminal/kill" });
    if (outcome === "gone" || outcome === "ended-before") return {};
    const left = survivors.length === 0 ? "" : `: ${survivors.length} processes survived SIGKILL`;
    throw new RpcFailure(REQUEST_REFUSED, `the terminal is not proven empty${left}`);
  }

  /** Kills the terminal and forgets its id. */
  async release(terminalId: string): Promise<Record<string, never>> {
    const done = await this.kill(terminalId);
    this.#open.delete(terminalId);
    return done;
  }

  /** Live processes in the terminals that a turn created. */
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

  /** Stops the terminals that a turn created. Resolves when they are gone, or known to survive. */
  async stopTurn(turnId: string): Promise<void> {
    const actor = "acp: its turn is over";
    await Promise.allSettled(
      this.#liveRuns(turnId).map(({ runId }) => this.#supervisor.stop(runId, { actor })),
    );
  }

  /** Stops all terminals and refuses new ones. Resolves when they are gone. */
  async stopAll(actor: string): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#starting);
    await Promise.all(
      this.#liveRuns().map(async (run) => {
        await run.cancel({ actor }).catch(() => undefined);
        // Rejects if the run was detached: then it ends under another supervisor.
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
    if (terminal === undefined) throw new RpcFailure(RESOURCE_NOT_FOUND, "no such terminal");
    return terminal;
  }

  async #requireRecord(runId: string): Promise<RunRecord> {
    const record = await this.#supervisor.getRun(runId);
    if (record === null) throw new RpcFailure(RESOURCE_NOT_FOUND, "the record of the terminal was removed");
    return record;
  }

  /** Bounded: output that is written during the read is left for the next call. */
  async #readOutput(
    runId: string,
    outputBytes: number,
  ): Promise<{ readonly bytes: Buffer; readonly cut: boolean }> {
    let chunks: Uint8Array[] = [];
    const maxBytes = 2 * spoolBytes(outputBytes);
    let cut = false;
    for (let offset = 0, length = 0; length < maxBytes;) {
      const chunk = await this.#supervisor.readOutput(runId, "stdout", { offset });
      if (chunk.bytes.length === 0) break;
      // The spool dropped its oldest segment, so the chunks read so far are no longer adjacent.
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

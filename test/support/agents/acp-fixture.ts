import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import { AcpController } from "../../../src/acp/controller.js";
import type { EnsureSessionRequest } from "../../../src/acp/ensure-session.js";
import type { AcpLimits } from "../../../src/acp/limits.js";
import { agentsById } from "../../../src/agents/catalogue.js";
import type { AgentEntry } from "../../../src/config/agents.js";
import type { ConfiguredPermissionRule } from "../../../src/config/permissions.js";
import type { AcpSession, AcpTurn } from "../../../src/model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../../../src/model/acp/permission-request.js";
import { Approvals } from "../../../src/sessions/approvals.js";
import { SessionHistory } from "../../../src/sessions/messages-and-inbox.js";
import { Sessions } from "../../../src/sessions/sessions.js";
import { openStore } from "../../../src/store/open.js";
import { openStateDirectory } from "../../../src/store/open-state-directory.js";
import type { Store } from "../../../src/store/store.js";
import type { Run, Supervisor, SupervisorOptions } from "../../../src/supervisor/api.js";
import { measureSlowness } from "../scale.js";
import {
  findProcessesOfRun,
  plantLookalike,
  realSupervisor,
  temporaryHome,
} from "../supervisor/real-supervisor.js";

const agentProgram = (name: string, ...args: readonly string[]): string[] => [
  process.execPath,
  fileURLToPath(new URL(`programs/${name}.mjs`, import.meta.url)),
  ...args,
];

/** Runs each prompt as a shell command. */
export const shellAgent = (...options: string[]): string[] => agentProgram("shell-agent", ...options);
/** Its prompts are lists of steps. */
export const scriptedAgent = agentProgram("scripted-agent");
/** Has modes, models, options, commands and sessions of its own. */
export const settableAgent = (variant = "new"): string[] => agentProgram("settable-agent", variant);
/** Its prompts are lists of file and terminal requests. */
export const clientAgent: readonly string[] = agentProgram("client-agent");
/** Has the optional features of the protocol that its options name. */
export const featureAgent = (...options: readonly string[]): string[] =>
  agentProgram("feature-agent", ...options);
/** An agent with one fault. */
export const misbehavingAgent = (fault: string): string[] => agentProgram("misbehaving-agent", fault);

/** Short, except where a loaded machine needs time. */
const SHORT_LIMITS = { settleMs: 100, ownExitMs: 300, graceMs: 300, toolGraceMs: 300, closeMs: 2_000 };
const WAIT_MS = 20_000;

interface OpenOptions {
  readonly home?: string;
  readonly instanceId?: string;
  /** Without the reconciliation of its runs. */
  readonly blind?: boolean;
  /** Default: a problem fails the test. */
  readonly onProblem?: (message: string) => void;
  /** In addition to the catalogue. */
  readonly agents?: readonly AgentEntry[];
  /** Rules of the config for permission requests. */
  readonly permissionRules?: readonly ConfiguredPermissionRule[];
  readonly onRunProblem?: SupervisorOptions["onProblem"];
  /** Wraps the store of the controller. */
  readonly through?: (store: Store) => Store;
}

/** The store with some methods replaced. */
export function overrideStore(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      const own: unknown = Reflect.get(methods, name) ?? Reflect.get(target, name);
      return typeof own === "function" ? (own.bind(target) as unknown) : own;
    },
  });
}

/**
 * A controller with real processes and a real store. At the end of the test its sessions are closed, and a process or
 * directory that is left fails the test.
 */
export class AcpFixture {
  readonly home: string;
  readonly supervisor: Supervisor;
  readonly store: Store;
  readonly acp: AcpController;
  readonly sessions: Sessions;
  readonly history: SessionHistory;
  /** Reported malformed lines. */
  readonly malformed: string[] = [];
  #detached = false;

  constructor(home: string, supervisor: Supervisor, store: Store, acp: AcpController, sessions: Sessions) {
    this.home = home;
    this.supervisor = supervisor;
    this.store = store;
    this.acp = acp;
    this.sessions = sessions;
    this.history = new SessionHistory(store);
    this.history.onMessage((sessionId) => acp.onMessageWaiting(sessionId));
  }

  static async open(limits: Partial<AcpLimits> = {}, options: OpenOptions = {}): Promise<AcpFixture> {
    const { instanceId = "in_acp", onRunProblem, through = (each) => each } = options;
    const home = options.home ?? (await temporaryHome());
    if (options.home === undefined) plantLookalike("sleep", "3018");
    const supervisor = await realSupervisor({
      home,
      instanceId,
      ...(onRunProblem === undefined ? {} : { onProblem: onRunProblem }),
    });
    const { storePath } = await openStateDirectory(home);
    const store = through(await openStore(storePath, instanceId));
    const onProblem = (message: string, cause: unknown): void => {
      if (options.onProblem !== undefined) return options.onProblem(message);
      if (!message.includes("is not a frame")) throw new Error(message, { cause });
      fixture.malformed.push(message);
    };
    const approvals = new Approvals({ store, gatewayInstanceId: instanceId, onProblem });
    const a2aPolicy = { enabled: false, allow: [] };
    const sessions = new Sessions({ store, approvals, gatewayInstanceId: instanceId, a2aPolicy });
    const agents = agentsById(options.agents);
    const acp = new AcpController({
      ...{ supervisor, store, sessions, agents, onProblem },
      permissionRules: options.permissionRules ?? [],
      limits: { ...SHORT_LIMITS, ...limits },
    });
    const fixture = new AcpFixture(home, supervisor, store, acp, sessions);
    onTestFinished(() => fixture.#closeAll());
    if (options.blind !== true) await supervisor.reconcile();
    await acp.reconcileAtStartup();
    return fixture;
  }

  get log(): string {
    const path = join(this.home, "agent.log");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  }

  /** The session's id. */
  async spawn(argv: readonly string[], more: Partial<EnsureSessionRequest> = {}): Promise<string> {
    const environment = { PATH: process.env["PATH"] ?? "", AGENT_LOG: join(this.home, "agent.log") };
    const request = { key: "one", argv, cwd: this.home, environment, ...more };
    return (await this.acp.ensureSession(request)).session.sessionId;
  }

  /** The run of the session's agent. */
  async run(sessionId: string): Promise<Run> {
    const { runId } = await this.session(sessionId);
    return this.supervisor.run(runId ?? "") ?? expect.fail("there is no agent");
  }

  async pid(sessionId: string): Promise<number> {
    return (await this.run(sessionId)).rootPid ?? expect.fail("the agent has no process");
  }

  async signalAgent(sessionId: string, signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
    process.kill(await this.pid(sessionId), signal);
  }

  async session(sessionId: string): Promise<AcpSession> {
    return (await this.store.getAcpSession(sessionId)) ?? expect.fail("there is no such session");
  }

  prompt(sessionId: string, text: string, timeoutMs?: number): Promise<AcpTurn> {
    const timeout = timeoutMs === undefined ? {} : { timeoutMs };
    return this.acp.prompt(sessionId, { text, askedBy: "test", ...timeout });
  }

  /** Sends a prompt and waits for the end of its turn. */
  async promptAndWait(sessionId: string, text: string, timeoutMs?: number): Promise<AcpTurn> {
    return this.waitForTurnEnd(await this.prompt(sessionId, text, timeoutMs));
  }

  /** Sends a prompt and waits until the turn has this text. */
  async promptUntil(sessionId: string, prompt: string, text: string): Promise<AcpTurn> {
    const turn = await this.prompt(sessionId, prompt);
    await this.waitForText(turn, text);
    return turn;
  }

  /** Asserts that a turn of a shell agent completes with this text. */
  async echo(sessionId: string, text: string, more: Partial<AcpTurn> = {}): Promise<void> {
    const turn = await this.promptAndWait(sessionId, `echo ${text}`);
    expect(turn).toMatchObject({ outcome: "completed", text: `${text}\n`, ...more });
  }

  cancel(sessionId: string, more: { readonly reapTools?: boolean; readonly turnId?: string } = {}) {
    return this.acp.cancelTurn(sessionId, { actor: "test", ...more });
  }

  close(sessionId: string) {
    return this.acp.closeSession(sessionId, { actor: "test" });
  }

  /** The first permission request without a decision. */
  pendingPermission(sessionId: string): Promise<AcpPermissionRequest> {
    return this.waitFor(
      sessionId,
      async () => (await this.store.listAcpPermissionRequests({ sessionId, pending: true }))[0],
    );
  }

  /** Allows a permission request with the digest of its question. */
  async allowPermission(id: string, actor = "ada"): Promise<boolean> {
    const permission = await this.store.getAcpPermissionRequest(id);
    const question = permission === null ? null : await this.acp.questionOf(permission);
    return (
      (await this.acp.answerPermission(id, "allow", actor, { digest: question?.digest }))?.decided ?? false
    );
  }

  waitForTurnEnd({ sessionId, turnId }: AcpTurn): Promise<AcpTurn> {
    return this.waitFor(sessionId, async () => {
      const now = await this.store.getAcpTurn(turnId);
      return now?.state === "ended" ? now : null;
    });
  }

  async waitForState(sessionId: string, state: AcpSession["state"]): Promise<void> {
    await this.waitFor(sessionId, async () => (await this.session(sessionId)).state === state);
  }

  /** Probes after every update. A machine slower than usual has more time. */
  async waitFor<T>(sessionId: string, probe: () => Promise<T | null | undefined | false>): Promise<T> {
    for (const slowness of [() => 1, measureSlowness]) {
      const timeout = AbortSignal.timeout(WAIT_MS * slowness());
      const found = await this.acp.updates.waitFor(sessionId, async () => (await probe()) || null, timeout);
      if (found !== null) return found;
    }
    return expect.fail(`not in time: ${String(probe)}`);
  }

  /** Waits until the turn has this text. */
  async waitForText({ sessionId, turnId }: AcpTurn, text: string): Promise<void> {
    await this.waitFor(sessionId, async () => {
      const updates = await this.store.listAcpUpdates({ sessionId, turnId });
      return updates.some(({ data }) => {
        const { sessionUpdate, content } = data as { sessionUpdate?: string; content?: { text: string } };
        return sessionUpdate === "agent_message_chunk" && content?.text.includes(text) === true;
      });
    });
  }

  /** Asserts that no process and no directory of the session is left. */
  async waitForAgentExit(sessionId: string): Promise<void> {
    const runs = await this.supervisor.listRuns({ sessionId });
    expect(runs.length).toBeGreaterThan(0);
    for (const { runId } of runs) {
      const record = await this.supervisor.run(runId)?.wait();
      expect(record ?? (await this.supervisor.getRun(runId))).toMatchObject({
        state: "exited",
        emptiness: "proven",
      });
      expect(await findProcessesOfRun(runId)).toEqual([]);
    }
    expect((await this.session(sessionId)).tmpdir).toBeNull();
  }

  /** Detaches like a stopping gateway; the agents keep running. */
  async detach(): Promise<void> {
    if (this.#detached) return;
    this.#detached = true;
    await this.acp[Symbol.asyncDispose]();
    await this.store[Symbol.asyncDispose]();
  }

  async restart(
    limits: Partial<AcpLimits> = {},
    { meanwhile, ...options }: OpenOptions & { readonly meanwhile?: () => void } = {},
  ): Promise<AcpFixture> {
    await this.detach();
    await this.supervisor.close({ leaveRuns: true });
    meanwhile?.();
    return AcpFixture.open(limits, { ...options, home: this.home });
  }

  async #closeAll(): Promise<void> {
    if (this.#detached) return;
    const { instanceId: gatewayInstanceId } = this.supervisor;
    for (const { sessionId } of await this.store.listAcpSessions({ gatewayInstanceId })) {
      await this.close(sessionId);
      await this.waitForAgentExit(sessionId);
    }
    await this.detach();
  }
}

/** A fixture with one session. */
export async function openAcpSession(
  ...[argv, more]: Parameters<AcpFixture["spawn"]>
): Promise<{ readonly fixture: AcpFixture; readonly session: string }> {
  const fixture = await AcpFixture.open();
  return { fixture, session: await fixture.spawn(argv, more) };
}

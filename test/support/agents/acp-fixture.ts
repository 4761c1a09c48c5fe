import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import { AcpController } from "../../../src/acp/controller.js";
import type { EnsureSessionRequest } from "../../../src/acp/ensure-session.js";
import type { AcpLimits } from "../../../src/acp/limits.js";
import { agentsById } from "../../../src/agents/catalogue.js";
import type { AgentEntry } from "../../../src/config/agents.js";
import { Approvals } from "../../../src/sessions/approvals.js";
import { SessionHistory } from "../../../src/sessions/history.js";
import { Sessions } from "../../../src/sessions/sessions.js";
import type { AcpTurn } from "../../../src/model/acp.js";
import { openStore } from "../../../src/store/open.js";
import { openStateDirectory } from "../../../src/store/open-state-directory.js";
import type { Store } from "../../../src/store/store.js";
import type { Supervisor, SupervisorOptions } from "../../../src/supervisor/api.js";
import {
  plantLookalike,
  findProcessesOfRun,
  realSupervisor,
  temporaryHome,
} from "../supervisor/real-supervisor.js";

export const shellAgent = (...offers: string[]): string[] => [
  process.execPath,
  fileURLToPath(new URL("programs/shell-agent.mjs", import.meta.url)),
  ...offers,
];

/** Its prompts are lists of steps. */
export const scriptedAgent = [
  process.execPath,
  fileURLToPath(new URL("programs/scripted-agent.mjs", import.meta.url)),
];

/** Short, except where a loaded machine needs time. */
const SHORT_LIMITS = { ownExitMs: 300, graceMs: 300, toolGraceMs: 300, closeMs: 2_000 };

interface OpenOptions {
  readonly home?: string;
  readonly instanceId?: string;
  /** Without the reconciliation of its runs. */
  readonly blind?: boolean;
  /** Default: a problem fails the test. */
  readonly onProblem?: (message: string) => void;
  /** In addition to the catalogue. */
  readonly agents?: readonly AgentEntry[];
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

/** A controller with real processes and a real store. */
export class AcpFixture {
  readonly home: string;
  readonly supervisor: Supervisor;
  readonly store: Store;
  readonly acp: AcpController;
  readonly sessions: Sessions;
  readonly history: SessionHistory;
  /** Reported malformed lines. */
  readonly malformed: string[] = [];

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
    const {
      home,
      instanceId = "in_acp",
      blind = false,
      onProblem: heard,
      onRunProblem,
      through = (each) => each,
    } = options;
    const place = home ?? (await temporaryHome());
    if (home === undefined) plantLookalike("sleep", "3018");
    const supervisor = await realSupervisor({
      home: place,
      instanceId,
      ...(onRunProblem === undefined ? {} : { onProblem: onRunProblem }),
    });
    const { storePath } = await openStateDirectory(place);
    const store = through(await openStore(storePath, instanceId));
    const onProblem = (message: string, cause: unknown): void => {
      if (heard !== undefined) return heard(message);
      if (!message.includes("is not a frame")) throw new Error(message, { cause });
      controlled.malformed.push(message);
    };
    const approvals = new Approvals({ store, gatewayInstanceId: instanceId, onProblem });
    const a2aPolicy = { enabled: false, allow: [] };
    const sessions = new Sessions({ store, approvals, gatewayInstanceId: instanceId, a2aPolicy });
    const acp = new AcpController({
      supervisor,
      store,
      sessions,
      agents: agentsById(options.agents),
      limits: { ...SHORT_LIMITS, ...limits },
      onProblem,
    });
    const controlled = new AcpFixture(place, supervisor, store, acp, sessions);
    onTestFinished(() => controlled.detach());
    if (!blind) await supervisor.reconcile();
    await acp.reconcileAtStartup();
    return controlled;
  }

  get log(): string {
    const path = join(this.home, "agent.log");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  }

  /** The session's id. */
  async spawn(argv: readonly string[], more: Partial<EnsureSessionRequest> = {}): Promise<string> {
    const environment = { PATH: process.env["PATH"] ?? "", AGENT_LOG: join(this.home, "agent.log") };
    const { session } = await this.acp.ensureSession({
      key: "one",
      argv,
      cwd: this.home,
      environment,
      ...more,
    });
    return session.sessionId;
  }

  async pid(sessionId: string): Promise<number> {
    const { runId } = await this.session(sessionId);
    return this.supervisor.run(runId ?? "")?.rootPid ?? expect.fail("there is no agent");
  }

  async session(sessionId: string) {
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

  /** Allows a permission request with the digest of its question. */
  async allowPermission(id: string, actor = "ada"): Promise<boolean> {
    const permission = await this.store.getAcpPermissionRequest(id);
    const question = permission === null ? null : await this.acp.questionOf(permission);
    return (await this.acp.answerPermission(id, "allow", actor, question?.digest))?.decided ?? false;
  }

  waitForTurnEnd({ sessionId, turnId }: AcpTurn): Promise<AcpTurn> {
    return this.waitFor(sessionId, async () => {
      const now = await this.store.getAcpTurn(turnId);
      return now?.state === "ended" ? now : null;
    });
  }

  /** Polls after every update. */
  async waitFor<T>(sessionId: string, look: () => Promise<T | null | undefined | false>): Promise<T> {
    const patience = AbortSignal.timeout(20_000);
    const seen = await this.acp.updates.waitFor(sessionId, async () => (await look()) || null, patience);
    return seen ?? expect.fail("it did not come to that");
  }

  /** Waits until the turn has this text. */
  async waitForText(turn: AcpTurn, text: string): Promise<void> {
    const { sessionId, turnId } = turn;
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
    if (this.#left) return;
    this.#left = true;
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

  #left = false;
}

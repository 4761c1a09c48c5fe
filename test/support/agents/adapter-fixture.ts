import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import {
  type Adapter,
  type AdapterEnd,
  type AdapterOptions,
  startAdapter,
} from "../../../src/acp/agent/adapter.js";
import { initialize } from "../../../src/acp/agent/open-agent-session.js";
import { decidePermission, parsePermissionRequest } from "../../../src/acp/permissions/permission-policy.js";
import { ReplayFilter, type TurnSummary } from "../../../src/acp/turn/turn-summary.js";
import type { AgentRpcRequest, ConnectionHandlers } from "../../../src/acp/wire/handlers.js";
import type { PermissionRule } from "../../../src/model/acp.js";
import { findProcessesOfRun, plantLookalike, realSupervisor } from "../supervisor/real-supervisor.js";

const CLIENT_INFO = { name: "holdfast-test", version: "0" };
const TIMEOUT_MS = 20_000;

export const misbehavingAgent = (mode: string): string[] => [
  process.execPath,
  fileURLToPath(new URL("programs/misbehaving-agent.mjs", import.meta.url)),
  mode,
];

interface OpenLimits {
  readonly initializeMs?: number;
  readonly newMs?: number;
  readonly cwd?: string;
}

/** An agent under a real supervisor, with a simple client. */
export class AdapterFixture {
  readonly adapter: Adapter;
  conversation = new ReplayFilter("");
  sessionId = "";
  permissions = 0;

  constructor(adapter: Adapter) {
    this.adapter = adapter;
  }

  /** Initializes the agent and opens a session. */
  async open(limits: OpenLimits = {}): Promise<void> {
    const { initializeMs = TIMEOUT_MS, newMs = TIMEOUT_MS, cwd = process.cwd() } = limits;
    await initialize(this.adapter.connection, CLIENT_INFO, { deadlineMs: initializeMs });
    const { sessionId } = await this.adapter.connection.request(
      "session/new",
      { cwd, mcpServers: [] },
      { deadlineMs: newMs, fatal: true },
    );
    this.sessionId = sessionId;
    this.conversation = new ReplayFilter(sessionId);
  }

  beginTurn(): TurnSummary {
    return this.conversation.beginTurn();
  }

  cancel(): Promise<void> {
    return this.adapter.connection.notify("session/cancel", { sessionId: this.sessionId });
  }

  async prompt(deadlineMs: number = TIMEOUT_MS, fatal = true): Promise<string> {
    const prompt = [{ type: "text" as const, text: "go" }];
    const { stopReason } = await this.adapter.connection.request(
      "session/prompt",
      { sessionId: this.sessionId, prompt },
      { deadlineMs, fatal },
    );
    return stopReason;
  }

  /** Asserts that every process and the directory are gone. */
  async waitForExit(): Promise<AdapterEnd> {
    const end = await this.adapter.ended;
    expect(end.record).toMatchObject({ state: "exited", emptiness: "proven" });
    expect(await findProcessesOfRun(this.adapter.run.runId)).toEqual([]);
    expect(existsSync(this.adapter.tmpdir)).toBe(false);
    return end;
  }
}

interface AdapterFixtureOptions extends Pick<AdapterOptions, "inherit" | "cwd" | "ownExitMs"> {
  readonly rules?: readonly PermissionRule[];
  readonly handlers?: Partial<ConnectionHandlers>;
}

export async function openAdapterFixture(
  argv: readonly string[],
  { rules = [], handlers = {}, ...rest }: AdapterFixtureOptions = {},
): Promise<AdapterFixture> {
  const supervisor = await realSupervisor();
  // A bystander that looks like the processes that agents leave.
  plantLookalike("sleep", "3018");
  const answer = async ({ id, params }: AgentRpcRequest): Promise<void> => {
    adapterFixture.permissions++;
    const asked = parsePermissionRequest(params);
    if (asked === null) throw new Error("not a permission request");
    const decision = decidePermission(rules, asked, asked.options, { canAsk: false });
    if (decision.type === "answer")
      await adapterFixture.adapter.connection.answer(id, { result: { outcome: decision.outcome } });
  };
  const adapter = await startAdapter(supervisor, {
    argv,
    ...rest,
    graceMs: 300,
    handlers: {
      onUpdates: async (batch) => {
        for (const update of batch) adapterFixture.conversation.classify(update);
      },
      requests: { "session/request_permission": answer },
      ...handlers,
    },
  });
  const adapterFixture = new AdapterFixture(adapter);
  onTestFinished(() => adapter.connection.close());
  return adapterFixture;
}

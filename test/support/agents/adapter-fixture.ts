import { existsSync } from "node:fs";
import { expect, onTestFinished } from "vitest";
import {
  type Adapter,
  type AdapterEnd,
  type AdapterOptions,
  startAdapter,
} from "../../../src/acp/agent/agent-connection.js";
import { initialize } from "../../../src/acp/agent/open-agent-session.js";
import { decidePermission, parsePermissionRequest } from "../../../src/acp/permissions/permission-policy.js";
import { ReplayFilter, type TurnSummary } from "../../../src/acp/turn/turn-summary.js";
import type { AgentRpcRequest, ConnectionHandlers } from "../../../src/acp/wire/handlers.js";
import { defaults } from "../../../src/defaults.js";
import { NO_CLIENT_ACCESS, toClientCapabilities } from "../../../src/config/agents.js";
import { newRunId } from "../../../src/model/ids.js";
import type { PermissionRule } from "../../../src/model/acp.js";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { findProcessesOfRun, plantLookalike, realSupervisor } from "../supervisor/real-supervisor.js";

const TIMEOUT_MS = 20_000;

/** An agent under a real supervisor, with a simple client. */
export class AdapterFixture {
  readonly adapter: Adapter;
  conversation = new ReplayFilter("");
  sessionId = "";

  constructor(adapter: Adapter) {
    this.adapter = adapter;
  }

  async open(): Promise<void> {
    this.sessionId = await openAgent(this.adapter);
    this.conversation = new ReplayFilter(this.sessionId);
  }

  beginTurn(): TurnSummary {
    return this.conversation.beginTurn();
  }

  cancel(): Promise<void> {
    return this.adapter.connection.notify("session/cancel", { sessionId: this.sessionId });
  }

  async prompt({ text = "go", deadlineMs = TIMEOUT_MS } = {}): Promise<string> {
    const { stopReason } = await this.adapter.connection.request(
      "session/prompt",
      { sessionId: this.sessionId, prompt: [{ type: "text", text }] },
      { deadlineMs, fatal: true },
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

/** Initializes an agent and opens a session. Resolves with the id of the session. */
export async function openAgent({ connection }: Adapter): Promise<string> {
  const options = { deadlineMs: TIMEOUT_MS, fatal: true };
  const clientCapabilities = toClientCapabilities(NO_CLIENT_ACCESS);
  await initialize(connection, { name: "holdfast-test", version: "0" }, { ...options, clientCapabilities });
  const session = { cwd: process.cwd(), mcpServers: [] };
  return (await connection.request("session/new", session, options)).sessionId;
}

/** Starts an agent beside a bystander that looks like the processes that agents leave. */
export function startTestAdapter(
  supervisor: Supervisor,
  options: Pick<AdapterOptions, "argv" | "handlers">,
): Promise<Adapter> {
  plantLookalike("sleep", "3018");
  const limits = { graceMs: 300, ownExitMs: defaults.acpOwnExitMs };
  return startAdapter(supervisor, { ...options, ...limits, runId: newRunId() });
}

export async function openAdapterFixture(
  argv: readonly string[],
  {
    rules = [],
    handlers = {},
  }: { readonly rules?: readonly PermissionRule[]; readonly handlers?: Partial<ConnectionHandlers> } = {},
): Promise<AdapterFixture> {
  const answer = async ({ id, params }: AgentRpcRequest): Promise<void> => {
    const asked = parsePermissionRequest(params);
    if (asked === null) throw new Error("not a permission request");
    const decision = decidePermission(rules, asked, asked.options);
    if (decision.type === "answer")
      await fixture.adapter.connection.answer(id, { result: { outcome: decision.outcome } });
  };
  const adapter = await startTestAdapter(await realSupervisor(), {
    argv,
    handlers: {
      onUpdates: async (batch) => {
        for (const update of batch) fixture.conversation.classify(update);
      },
      requests: { "session/request_permission": answer },
      ...handlers,
    },
  });
  const fixture = new AdapterFixture(adapter);
  onTestFinished(() => adapter.connection.close());
  return fixture;
}

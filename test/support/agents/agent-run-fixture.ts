import { existsSync } from "node:fs";
import { expect, onTestFinished } from "vitest";
import {
  type AgentRun,
  type AgentEnd,
  type AgentRunOptions,
  startAgent,
} from "../../../src/acp/agent/agent-run.js";
import { initialize } from "../../../src/acp/agent/open-agent-session.js";
import { decidePermission } from "../../../src/acp/permissions/decide-permission.js";
import { parsePermissionRequest } from "../../../src/acp/permissions/parse-permission-request.js";
import type { TurnSummary } from "../../../src/acp/turn/turn-summary.js";
import { ReplayFilter } from "../../../src/acp/turn/replay-filter.js";
import type { AgentRpcRequest, ConnectionHandlers } from "../../../src/acp/wire/connection-contract.js";
import { defaults } from "../../../src/defaults.js";
import { NO_CLIENT_ACCESS, toClientCapabilities } from "../../../src/config/client-access.js";
import { newRunId } from "../../../src/model/ids.js";
import type { PermissionRule } from "../../../src/model/acp/permission-rule.js";
import type { Supervisor } from "../../../src/supervisor/api.js";
import { findProcessesOfRun, plantLookalike, realSupervisor } from "../supervisor/real-supervisor.js";

const TIMEOUT_MS = 20_000;

/** An agent under a real supervisor, with a simple client. */
class AgentRunFixture {
  readonly agentRun: AgentRun;
  conversation = new ReplayFilter("");
  sessionId = "";
  /** Called before a permission request is answered. */
  beforeAnswer: () => Promise<void> = async () => {};

  constructor(agentRun: AgentRun) {
    this.agentRun = agentRun;
  }

  async open(): Promise<void> {
    this.sessionId = await openAgent(this.agentRun);
    this.conversation = new ReplayFilter(this.sessionId);
  }

  beginTurn(): TurnSummary {
    return this.conversation.beginTurn();
  }

  cancel(): Promise<void> {
    return this.agentRun.connection.notify("session/cancel", { sessionId: this.sessionId });
  }

  async prompt({ text = "go", deadlineMs = TIMEOUT_MS } = {}): Promise<string> {
    const { stopReason } = await this.agentRun.connection.request(
      "session/prompt",
      { sessionId: this.sessionId, prompt: [{ type: "text", text }] },
      { deadlineMs, fatal: true },
    );
    return stopReason;
  }

  /** Asserts that every process and the directory are gone. */
  async waitForExit(): Promise<AgentEnd> {
    const end = await this.agentRun.ended;
    expect(end.record).toMatchObject({ state: "exited", emptiness: "proven" });
    expect(await findProcessesOfRun(this.agentRun.run.runId)).toEqual([]);
    expect(existsSync(this.agentRun.tmpdir)).toBe(false);
    return end;
  }
}

/** Initializes an agent and opens a session. Resolves with the id of the session. */
export async function openAgent({ connection }: AgentRun): Promise<string> {
  const options = { deadlineMs: TIMEOUT_MS, fatal: true };
  const clientCapabilities = toClientCapabilities(NO_CLIENT_ACCESS);
  await initialize(connection, { name: "holdfast-test", version: "0" }, { ...options, clientCapabilities });
  const session = { cwd: process.cwd(), mcpServers: [] };
  return (await connection.request("session/new", session, options)).sessionId;
}

/** Starts an agent beside a bystander that looks like the processes that agents leave. */
export function startTestAgent(
  supervisor: Supervisor,
  options: Pick<AgentRunOptions, "argv" | "handlers">,
): Promise<AgentRun> {
  plantLookalike("sleep", "3018");
  const limits = { graceMs: 300, ownExitMs: defaults.acpOwnExitMs };
  return startAgent(supervisor, { ...options, ...limits, runId: newRunId() });
}

export async function openAgentRunFixture(
  argv: readonly string[],
  {
    rules = [],
    handlers = {},
  }: { readonly rules?: readonly PermissionRule[]; readonly handlers?: Partial<ConnectionHandlers> } = {},
): Promise<AgentRunFixture> {
  const answer = async ({ id, params }: AgentRpcRequest): Promise<void> => {
    const asked = parsePermissionRequest(params);
    if (asked === null) throw new Error("not a permission request");
    await fixture.beforeAnswer();
    const decision = decidePermission(rules, asked, asked.options);
    if (decision.type === "answer")
      await fixture.agentRun.connection.answer(id, { result: { outcome: decision.outcome } });
  };
  const agentRun = await startTestAgent(await realSupervisor(), {
    argv,
    handlers: {
      onUpdates: async (batch) => {
        for (const update of batch) fixture.conversation.classify(update);
      },
      requests: { "session/request_permission": answer },
      ...handlers,
    },
  });
  const fixture = new AgentRunFixture(agentRun);
  onTestFinished(() => agentRun.connection.close());
  return fixture;
}

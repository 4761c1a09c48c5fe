import type { ClientCapabilities, InitializeResponse } from "@agentclientprotocol/sdk";
import { StdinClosed } from "../../errors.js";
import { packageVersion } from "../../home/package.js";
import { newRunId } from "../../model/ids.js";
import type { Supervisor } from "../../supervisor/api.js";
import { ACP_BACKEND } from "../../model/enums.js";
import { type AgentCommand, executedArgv } from "../agent-command.js";
import type { AcpLimits } from "../limits.js";
import type { AcpConnection } from "../wire/connection.js";
import { startAgent } from "./agent-run.js";
import { initialize } from "./open-agent-session.js";

export interface TemporaryAgentDeps {
  readonly supervisor: Supervisor;
  readonly limits: AcpLimits;
}

interface TemporaryAgentRequest {
  readonly command: AgentCommand;
  readonly cwd: string;
  readonly clientCapabilities: ClientCapabilities;
  /** The recorded reason of its end. */
  readonly endReason: string;
  /** Aborts when no caller waits for the result any more: the agent is ended. */
  readonly signal?: AbortSignal | undefined;
}

/** Starts and initializes an agent that belongs to no session, and ends it after the work. */
export async function withTemporaryAgent<Result>(
  { supervisor, limits }: TemporaryAgentDeps,
  { command, cwd, clientCapabilities, endReason, signal }: TemporaryAgentRequest,
  work: (connection: AcpConnection, capabilities: InitializeResponse) => Promise<Result>,
): Promise<Result> {
  const { env, inherit } = command;
  const { graceMs, ownExitMs, initializeMs: deadlineMs } = limits;
  const agentRun = await startAgent(supervisor, {
    ...{ argv: executedArgv(command), env, inherit, cwd, graceMs, ownExitMs, runId: newRunId() },
    allowEnv: Object.keys(env),
    // The next gateway process ends it, because it belongs to no session.
    backendId: ACP_BACKEND,
    handlers: { onUpdates: () => Promise.resolve(), requests: {} },
  });
  const { connection } = agentRun;
  const abandon = (): void => connection.close("closed", "its caller has left");
  signal?.addEventListener("abort", abandon);
  try {
    if (signal?.aborted === true) abandon();
    const client = { name: "holdfast", version: packageVersion() };
    return await work(connection, await initialize(connection, client, { clientCapabilities, deadlineMs }));
  } catch (error) {
    if (error instanceof StdinClosed) throw (await agentRun.ended).closed;
    throw error;
  } finally {
    signal?.removeEventListener("abort", abandon);
    await agentRun.close(endReason);
  }
}

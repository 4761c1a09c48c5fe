import type { InitializeResponse } from "@agentclientprotocol/sdk";
import { AcpRefused, AcpTimeout } from "../../errors.js";
import { ReplayFilter } from "../turn/replay-filter.js";
import type { TurnRecorder } from "./turn-recorder.js";
import type { AcpConnection } from "../wire/connection.js";

export interface OpenAgentSessionOptions {
  readonly connection: AcpConnection;
  readonly recorder: TurnRecorder;
  readonly capabilities: InitializeResponse;
  readonly cwd: string;
  readonly deadlineMs: number;
  /** The agent's session to continue; null: open a new one. */
  readonly previousSessionId: string | null;
}

/**
 * Resumes or loads the agent's previous session if the agent supports that; otherwise opens a new one. Some agents claim
 * support and fail, so each way is tried in turn. `contextLost`: the agent does not know the earlier turns.
 */
export async function openAgentSession(
  options: OpenAgentSessionOptions,
): Promise<{ readonly contextLost: boolean }> {
  const { connection, recorder, capabilities, cwd, deadlineMs, previousSessionId } = options;
  const supported = capabilities.agentCapabilities;
  if (previousSessionId !== null) {
    const previous = { sessionId: previousSessionId, cwd, mcpServers: [] };
    recorder.replayFilter = new ReplayFilter(previousSessionId);
    if (isSupported(supported?.sessionCapabilities?.resume))
      if (await succeeds(connection.request("session/resume", previous, { deadlineMs })))
        return { contextLost: false };
    if (supported?.loadSession === true) {
      recorder.replayFilter.beginReplay();
      if (await succeeds(connection.request("session/load", previous, { deadlineMs })))
        return { contextLost: false };
    }
  }
  await connection.request("session/new", { cwd, mcpServers: [] }, { deadlineMs, fatal: true });
  return { contextLost: previousSessionId !== null };
}

export function isSupported(capability: object | null | undefined): boolean {
  return capability !== null && capability !== undefined;
}

/** False: refused or timed out, so another way can be tried. Rejects if the connection is closed. */
async function succeeds(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return true;
  } catch (error) {
    if (error instanceof AcpRefused || error instanceof AcpTimeout) return false;
    throw error;
  }
}

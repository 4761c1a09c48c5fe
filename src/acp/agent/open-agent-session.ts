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
  /** The agent's session to go on with; null: a new one. */
  readonly previousSessionId: string | null;
}

/**
 * A session of the agent's: the former one resumed, or else loaded, where the agent offers it and can; otherwise a new
 * one. Some offer what they cannot do. Returns whether the agent knows nothing of what was said before.
 */
export async function openAgentSession(
  begin: OpenAgentSessionOptions,
): Promise<{ readonly contextLost: boolean }> {
  const { connection, recorder, capabilities, cwd, deadlineMs, previousSessionId } = begin;
  const offers = capabilities.agentCapabilities;
  if (previousSessionId !== null) {
    const again = { sessionId: previousSessionId, cwd, mcpServers: [] };
    recorder.replayFilter = new ReplayFilter(previousSessionId);
    if (isSupported(offers?.sessionCapabilities?.resume))
      if (await succeeds(connection.request("session/resume", again, { deadlineMs })))
        return { contextLost: false };
    if (offers?.loadSession === true) {
      recorder.replayFilter.beginReplay();
      if (await succeeds(connection.request("session/load", again, { deadlineMs })))
        return { contextLost: false };
    }
  }
  await connection.request("session/new", { cwd, mcpServers: [] }, { deadlineMs, fatal: true });
  return { contextLost: previousSessionId !== null };
}

export function isSupported(capability: object | null | undefined): boolean {
  return capability !== null && capability !== undefined;
}

/** Refused, or not answered: there may be another way. Anything else is the end of the connection. */
async function succeeds(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return true;
  } catch (error) {
    if (error instanceof AcpRefused || error instanceof AcpTimeout) return false;
    throw error;
  }
}

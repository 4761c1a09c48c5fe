import type { InitializeResponse } from "@agentclientprotocol/sdk";
import { AcpRefused, AcpTimeout } from "../errors.js";
import { Conversation } from "./conversation.js";
import type { Exchange } from "./exchange.js";
import type { Connection } from "./wire/connection.js";

export interface SessionBegin {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly capabilities: InitializeResponse;
  readonly cwd: string;
  readonly deadlineMs: number;
  /** The agent's session to go on with; null: a new one. */
  readonly former: string | null;
}

/**
 * A session of the agent's: the former one resumed, or else loaded, where the agent offers it and can; otherwise a new
 * one. Some offer what they cannot do. Returns whether the agent knows nothing of what was said before.
 */
export async function beginSession(begin: SessionBegin): Promise<{ readonly contextLost: boolean }> {
  const { connection, exchange, capabilities, cwd, deadlineMs, former } = begin;
  const offers = capabilities.agentCapabilities;
  if (former !== null) {
    const again = { sessionId: former, cwd, mcpServers: [] };
    exchange.conversation = new Conversation(former);
    if (isOffered(offers?.sessionCapabilities?.resume))
      if (await works(connection.request("session/resume", again, { deadlineMs })))
        return { contextLost: false };
    if (offers?.loadSession === true) {
      exchange.conversation.beginReplay();
      if (await works(connection.request("session/load", again, { deadlineMs })))
        return { contextLost: false };
    }
  }
  await connection.request("session/new", { cwd, mcpServers: [] }, { deadlineMs, fatal: true });
  return { contextLost: former !== null };
}

export function isOffered(capability: object | null | undefined): boolean {
  return capability !== null && capability !== undefined;
}

/** Refused, or not answered: there may be another way. Anything else is the end of the connection. */
async function works(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return true;
  } catch (error) {
    if (error instanceof AcpRefused || error instanceof AcpTimeout) return false;
    throw error;
  }
}

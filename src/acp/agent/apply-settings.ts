import { AcpRefused, AcpTimeout, BadInput } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import type { AgentSettings } from "../../model/acp/agent-settings.js";
import type { SessionWriter } from "../session-writer.js";
import type { AcpConnection } from "../wire/connection.js";
import { type AgentSetting, listSettings, requestForSetting, stateAfterSetting } from "./agent-settings.js";
import { EMPTY_AGENT_REPORT } from "./agent-reported-state.js";

export interface SettingsTarget {
  readonly connection: AcpConnection;
  readonly writer: SessionWriter;
  readonly deadlineMs: number;
}

/** Applies the settings to the agent's session, one after the other. Rejects at the first that fails; later ones are not applied. */
export async function applySettings(target: SettingsTarget, settings: AgentSettings): Promise<void> {
  for (const setting of listSettings(settings)) await applySetting(target, setting);
}

/**
 * Applies the stored settings when the agent's session is opened. A new session fails if one cannot be applied; a
 * restarted agent continues without it. Returns the reasons why some were not applied.
 */
export async function applyStoredSettings(
  target: SettingsTarget,
  isNew: boolean,
): Promise<readonly string[]> {
  const { settings } = target.writer.row;
  if (settings === null) return [];
  if (isNew) {
    await applySettings(target, settings);
    return [];
  }
  const refused = [];
  for (const setting of listSettings(settings))
    try {
      await applySetting(target, setting);
    } catch (error) {
      const expected =
        error instanceof BadInput || error instanceof AcpRefused || error instanceof AcpTimeout;
      if (!expected) throw error;
      refused.push(errorMessage(error));
    }
  return refused;
}

async function applySetting(
  { connection, writer, deadlineMs }: SettingsTarget,
  setting: AgentSetting,
): Promise<void> {
  const request = requestForSetting(writer.row.agentState ?? EMPTY_AGENT_REPORT, setting);
  if (request === null) return;
  const sessionId = writer.row.agentSessionId ?? "";
  await connection.requestAny(request.method, { sessionId, ...request.params }, { deadlineMs });
  await writer.commit(() => {
    const agentState = stateAfterSetting(writer.row.agentState ?? EMPTY_AGENT_REPORT, request);
    return agentState === null ? null : { session: { agentState } };
  });
}

import type { AgentReport } from "../../model/acp/agent-reported-state.js";
import { openReadClient } from "../client/read-client.js";

/** The settings of an agent that shell completion offers. */
type AgentWordKind = "model" | "mode" | "option";

/** Sessions that are read: agents with the same name offer the same. */
const SESSIONS = 3;

/**
 * The models, modes or options that agents offer, from the newest sessions that the words of the command name, or whose
 * agent they name; if they name none, of the newest sessions.
 */
export async function agentWords(kind: AgentWordKind, words: readonly string[]): Promise<readonly string[]> {
  await using reader = await openReadClient();
  const { sessions } = await reader.client.acpList({ query: { all: "1", limit: 200 } });
  const named = sessions.filter(({ key, sessionId, agent }) =>
    [key, sessionId, agent].some((each) => each !== null && words.includes(each)),
  );
  const found = [];
  for (const { sessionId } of (named.length > 0 ? named : sessions).slice(0, SESSIONS)) {
    const { agentState } = await reader.client.acpShow({ params: { id: sessionId } });
    if (agentState !== null) found.push(...wordsOf(kind, agentState));
  }
  return found;
}

function wordsOf(kind: AgentWordKind, { models, modes, options }: AgentReport): readonly string[] {
  if (kind === "option")
    return options.flatMap(({ id, type, values }) =>
      (type === "boolean" ? ["true", "false"] : values.map(({ value }) => value)).map(
        (value) => `${id}=${value}`,
      ),
    );
  const values = options.find(({ category }) => category === kind)?.values.map(({ value }) => value);
  const listed = kind === "model" ? models : modes;
  return values ?? listed?.available.map(({ id }) => id) ?? [];
}

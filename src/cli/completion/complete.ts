import { NAME_LABEL } from "../options/run-name.js";
import { print } from "../print/stdout.js";
import type { CompletedKind } from "./kinds.js";

/** Enough for a menu; the newest come first. */
const LIMIT = 200;

/** Prints one word per line. A completion script has no place for errors, so none is printed. */
export async function printCompletions(kind: CompletedKind): Promise<number> {
  const words = await SOURCES[kind]().catch(() => []);
  // A shell splits words at white space, and a word must not hold anything that it would expand.
  const safe = [...new Set(words)].filter((word) => /^[\w.:/@+-]+$/.test(word));
  if (safe.length > 0) print(`${safe.join("\n")}\n`);
  return 0;
}

const SOURCES: Readonly<Record<CompletedKind, () => Promise<readonly string[]>>> = {
  run: async () => {
    const { openRunView } = await import("../client/run-view.js");
    await using runs = await openRunView();
    const found = (await runs.view?.listRuns({ hidden: false, limit: LIMIT })) ?? [];
    return found.flatMap(({ runId, labels }) => [runId, ...namesIn(labels)]);
  },
  session: async () => {
    await using reader = await openQuietReader();
    const { sessions } = await reader.client.listSessions({ query: { limit: LIMIT } });
    return sessions.flatMap(({ id, key }) => [key, id]);
  },
  task: async () => {
    await using reader = await openQuietReader();
    const { tasks } = await reader.client.listTasks({ query: { limit: LIMIT } });
    return tasks.map(({ taskId }) => taskId);
  },
  agent: async () => {
    const [{ readSettings }, { agentsById, agentsFromConfig }] = await Promise.all([
      import("../../config/settings.js"),
      import("../../agents/catalogue.js"),
    ]);
    return [...agentsById(agentsFromConfig((await readSettings()).config.agents)).keys()];
  },
  channel: async () => {
    const { readSettings } = await import("../../config/settings.js");
    return Object.keys((await readSettings()).config.channels);
  },
};

function namesIn(labels: Readonly<Record<string, string>>): string[] {
  const name = labels[NAME_LABEL];
  return name === undefined ? [] : [name];
}

async function openQuietReader() {
  const { openReadClient } = await import("../client/read-client.js");
  return openReadClient();
}

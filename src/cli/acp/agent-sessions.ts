import { resolve } from "node:path";
import { BadInput } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start-in-background.js";
import { connectOrStart } from "../client/connect.js";
import type { JsonFlag } from "../options/command-definition.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";

interface AgentSessionsFlags extends JsonFlag {
  readonly agentCommand?: string;
  readonly cwd?: string;
  readonly limit: number;
}

/** Lists the sessions that an agent has stored itself, also those that were made without Holdfast. */
export async function printAgentSessions(
  agent: string | undefined,
  { agentCommand, cwd, limit, json = false }: AgentSessionsFlags,
): Promise<number> {
  if ((agent === undefined) === (agentCommand === undefined))
    throw new BadInput("agent", "give an agent of the catalogue, or --agent-command; nothing was started");
  const { client } = await connectOrStart();
  const { sessions } = await client.acpAgentSessions({
    body: {
      ...(agentCommand === undefined ? { agent: agent ?? "" } : { argv: ["/bin/sh", "-c", agentCommand] }),
      ...(cwd === undefined ? {} : { directory: resolve(cwd) }),
      cwd: resolve(cwd ?? "."),
      environment: environmentOutsideRuns(),
      limit,
    },
  });
  if (json) print(toJson(sessions, 2));
  else if (sessions.length === 0) notice("the agent has no sessions", "dim");
  else
    printTable(
      ["SESSION", { name: "UPDATED", optional: 1 }, "DIRECTORY", "TITLE"],
      sessions.map(({ sessionId, cwd: at, title, updatedAt }) => [
        sessionId,
        updatedAt ?? "-",
        at,
        title ?? "-",
      ]),
    );
  return 0;
}

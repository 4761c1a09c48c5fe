import type { AgentEntry } from "../../agents/entry.js";
import { resolveExecutable } from "../../sessions/resolve-executable.js";
import type { AnswerOf } from "../contract/contract.js";

export type AnyListing = AnswerOf<"listAgents">["agents"][number];

/** All that are known, by id, and which of them are the config's. */
export interface KnownAgents {
  readonly all: ReadonlyMap<string, AgentEntry>;
  readonly own: ReadonlySet<string>;
}

export async function listAgents(
  { all, own }: KnownAgents,
  path: string | undefined = process.env["PATH"],
): Promise<AnswerOf<"listAgents">> {
  const entries = [...all.values()];
  return { agents: await Promise.all(entries.map((entry) => listAgent(entry, own.has(entry.id), path))) };
}

/** What is known of an agent and where its commands lie, on this PATH or on the one that it sets itself. Nothing is executed. */
export async function listAgent(
  entry: AgentEntry,
  own: boolean,
  path: string | undefined,
): Promise<AnyListing> {
  const { id, name = id, acp, cli, install = null, env } = entry;
  const lookup = { path: env["PATH"] ?? path, cwd: process.cwd() };
  const form = async ([program = "", ...rest]: readonly string[]) => ({
    argv: [program, ...rest],
    executable: await resolveExecutable(program, lookup),
  });
  return {
    id,
    name,
    from: own ? "config" : "built-in",
    acp: acp === undefined ? null : await form(acp.argv),
    cli:
      cli === undefined
        ? null
        : { ...(await form(cli.argv)), output: cli.output, resumes: cli.resumeArgv !== undefined },
    install,
  };
}

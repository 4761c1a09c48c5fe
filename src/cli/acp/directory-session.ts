import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { GatewayClient } from "../../api/client.js";
import { BadInput } from "../../errors.js";
import { connectOrStart } from "../client/connect.js";
import { type AcpSessionSummary, qualifiedSessionName } from "../client/resolve-acp-session.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { promptSession } from "./prompt.js";
import { spawnSession, type SpawnFlags } from "./spawn.js";

export interface WithFlags extends Omit<SpawnFlags, "name" | "agentCommand" | "mode"> {
  /** Another session of this directory than its default one. */
  readonly session?: string;
  /** Close the session of this directory, and open another. */
  readonly new?: true;
  /** One prompt in a session of its own, which is then closed. */
  readonly once?: true;
}

/** Opens the session of a directory with an agent, or continues it; with a prompt, shows the answer. */
export async function useAgent(agent: string, prompt: string | undefined, flags: WithFlags): Promise<number> {
  if (flags.once === true) {
    if (flags.session !== undefined || flags.new === true)
      throw new BadInput(
        "once",
        "--once has a session of its own: give neither --session nor --new. Nothing was started",
      );
    return spawnSession(agent, prompt, { ...flags, mode: { session: "run" } });
  }
  const cwd = directoryOf(flags.cwd);
  const name = directorySessionName(agent, cwd, flags.session);
  const { client } = await connectOrStart();
  const open = await findOpenSession(client, name);
  if (open !== null && flags.new === true) {
    await client.acpClose({ params: { id: open.sessionId } });
    notice(`${open.key} (${open.sessionId}) is closed`, "dim");
  }
  if (open === null || flags.new === true)
    return spawnSession(agent, prompt, { ...flags, name, cwd, mode: { session: "session" } });
  if (prompt !== undefined) return promptSession(open.sessionId, prompt, { ...flags, wait: true });
  print(flags.json === true ? toJson({ session: open, created: false, turn: null }) : `${open.sessionId}\n`);
  return 0;
}

/** Links are resolved, so that one directory has one session. */
function directoryOf(given: string): string {
  const path = resolve(given);
  try {
    return realpathSync(path);
  } catch {
    // The gateway reports a directory that does not exist.
    return path;
  }
}

async function findOpenSession(client: GatewayClient, name: string): Promise<AcpSessionSummary | null> {
  const key = qualifiedSessionName(name);
  const { sessions } = await client.acpList({ query: { limit: 1_000 } });
  return sessions.find((session) => session.key === key) ?? null;
}

const HASH_CHARS = 6;
const MAX_DIRECTORY_CHARS = 60;

/** The name of the session of a directory: readable, and different for directories with the same last part. */
export function directorySessionName(agent: string, cwd: string, session?: string): string {
  const hash = createHash("sha256").update(cwd).digest("hex").slice(0, HASH_CHARS);
  const last =
    basename(cwd)
      .replaceAll(/[^\w.-]+/g, "-")
      .slice(0, MAX_DIRECTORY_CHARS) || "root";
  return `${agent}@${last}-${hash}${session === undefined ? "" : `/${session}`}`;
}

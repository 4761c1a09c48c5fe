import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { basename, resolve } from "node:path";
import { BadInput } from "../../errors.js";
import { connectOrStart } from "../client/connect.js";
import { qualifiedSessionName } from "../client/resolve-acp-session.js";
import { notice } from "../print/errors-and-notices.js";
import { promptSession } from "./prompt.js";
import { findOpenSession, spawnSession, type SpawnFlags } from "./spawn.js";

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
  const hasPrompt = prompt !== undefined || flags.promptFile !== undefined;
  if (flags.session === "") throw new BadInput("session", "--session needs a name; nothing was started");
  if (flags.once === true) {
    if (flags.session !== undefined || flags.new === true)
      throw new BadInput(
        "once",
        "--once has a session of its own: give neither --session nor --new. Nothing was started",
      );
    if (!hasPrompt) throw new BadInput("once", "--once needs a prompt; nothing was started");
    return spawnSession(agent, prompt, { ...flags, mode: { session: "run" } });
  }
  const cwd = directoryOf(flags.cwd);
  const name = directorySessionName(agent, cwd, flags.session);
  const { client } = await connectOrStart();
  const open = await findOpenSession(client, qualifiedSessionName(name));
  if (open !== null && flags.new === true) {
    await client.acpClose({ params: { id: open.sessionId } });
    notice(`${open.key} (${open.sessionId}) is closed`, "dim");
  }
  if (open !== null && flags.new !== true && hasPrompt && !hasSessionOptions(flags))
    return promptSession(open.sessionId, prompt, { ...flags, wait: true });
  // Continues an open session, after the gateway has compared the options with it.
  return spawnSession(agent, prompt, { ...flags, name, cwd, mode: { session: "session" } });
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

/** Options that a session gets when it is opened. */
function hasSessionOptions(flags: WithFlags): boolean {
  const { model, option, approveAll, approveReads, denyAll, allow, deny, ask } = flags;
  return [model, option, approveAll, approveReads, denyAll, allow, deny, ask].some(
    (each) => each !== undefined,
  );
}

const HASH_CHARS = 6;
const MAX_DIRECTORY_CHARS = 60;

/** The name of the session of a directory: readable, and different for directories with the same last part. */
function directorySessionName(agent: string, cwd: string, session?: string): string {
  const hash = createHash("sha256").update(cwd).digest("hex").slice(0, HASH_CHARS);
  const last =
    basename(cwd)
      .replaceAll(/[^\w.-]+/g, "-")
      .slice(0, MAX_DIRECTORY_CHARS) || "root";
  return `${agent}@${last}-${hash}${session === undefined ? "" : `/${session}`}`;
}

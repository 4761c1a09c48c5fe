import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The name is known before the directory exists, so the next gateway process can remove it. */
export function agentTmpdirPath(runId: string): string {
  return join(tmpdir(), `hf-acp-${runId}`);
}

/** Fails if the directory exists: then it is not ours. */
export async function createAgentTmpdir(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 });
}

/**
 * Call when no process can use the directory. Returns null, or the error if it cannot be removed. Agents may leave
 * directories without write permission, so these are made writable first.
 */
export async function removeAgentTmpdir(path: string | null): Promise<unknown> {
  if (path === null || !path.includes("/hf-acp-")) return null;
  try {
    await removeTree(path).catch(async () => {
      await makeWritable(path);
      await removeTree(path);
    });
    return null;
  } catch (error) {
    return error;
  }
}

function removeTree(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 3 });
}

/** Only directories; links are not followed. */
async function makeWritable(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true }))
    if (entry.isDirectory()) await makeWritable(join(path, entry.name));
}

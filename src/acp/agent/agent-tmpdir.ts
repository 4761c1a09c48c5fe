import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** An agent's own TMPDIR is named before it exists: whoever comes next knows what to remove. */
export function agentTmpdirPath(runId: string): string {
  return join(tmpdir(), `hf-acp-${runId}`);
}

/** Fails when somebody else has made it: it is not ours then. */
export async function createAgentTmpdir(path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 });
}

/**
 * When nobody lives who could use it. Null: it is gone; else why it is not. What agents leave is theirs to choose, such
 * as caches without leave to write: that one cannot be removed must change nothing else.
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

/** Directories only, and never through a link. */
async function makeWritable(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true }))
    if (entry.isDirectory()) await makeWritable(join(path, entry.name));
}

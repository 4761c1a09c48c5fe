import { randomUUID } from "node:crypto";
import { link, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StateUnusable, UnsafePath } from "../errors.js";
import { errnoOf } from "./errno.js";
import { readOwnFile } from "./own-file.js";

/** An id of the state directory's own: made once, by whoever comes first, the same for everybody ever after. */
export async function persistentId(home: string, name: string, make: () => string): Promise<string> {
  const path = join(home, name);
  const draft = join(home, `${name}.${randomUUID()}`);
  try {
    const kept = await readId(path).catch(() => "");
    if (kept !== "") return kept;
    await writeFile(draft, `${make()}\n`, { mode: 0o600, flag: "wx" });
    // A link, not a rename: of several that start at once the first wins, and the file is never half written.
    await link(draft, path).catch((error: unknown) => {
      if (errnoOf(error) !== "EEXIST") throw error;
    });
    return await readId(path);
  } catch (cause) {
    if (cause instanceof UnsafePath) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new StateUnusable(path, `${path} cannot be made (${why}); nothing was started`, { cause });
  } finally {
    await rm(draft, { force: true });
  }
}

async function readId(path: string): Promise<string> {
  return (await readOwnFile(path)).trim();
}

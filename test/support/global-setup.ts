import { chmodSync, existsSync, mkdtempSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Makes the directory that holds the temporary directories of all test files, unless `npm test` has made it. */
export function setup(): () => void {
  const given = process.env["SUITE_TMPDIR"];
  if (given !== undefined) return () => removeUnused(given);
  const directory = mkdtempSync(join(tmpdir(), "hf-"));
  chmodSync(directory, 0o755);
  process.env["SUITE_TMPDIR"] = directory;
  return () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
}

/** A file whose tests are all skipped runs no hook that removes its directory. */
function removeUnused(directory: string): void {
  // The project of vitest that has made it has removed it.
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory).filter((each) => /^\d+$/.test(each)))
    try {
      rmdirSync(join(directory, name));
    } catch {
      // Not empty: `npm test` names it.
    }
}

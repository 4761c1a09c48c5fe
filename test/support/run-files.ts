import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { StreamName } from "../../src/anchor/host-interface.js";
import type { Supervisor } from "../../src/supervisor/api.js";

export function runDirectory({ home, instanceId }: Supervisor, runId: string): string {
  return join(home, "instances", instanceId, "runs", runId);
}

/** The size of the spool files of a stream, and its end offset. */
export async function spoolUsage(
  supervisor: Supervisor,
  runId: string,
  stream: StreamName = "stdout",
): Promise<{ readonly bytes: number; readonly end: number }> {
  const directory = runDirectory(supervisor, runId);
  const names = (await readdir(directory)).filter((name) => name.startsWith(`${stream}.`));
  let [bytes, end] = [0, 0];
  for (const name of names) {
    // The anchor may have removed it meanwhile.
    const size = await stat(join(directory, name)).then(
      (found) => found.size,
      () => 0,
    );
    bytes += size;
    end = Math.max(end, Number(name.slice(stream.length + 1)) + size);
  }
  return { bytes, end };
}

interface StreamEnd {
  readonly start: number;
  readonly end: number;
  readonly dropped: number;
}

/** The exit file that the anchor wrote. */
export async function readExitFile(
  supervisor: Supervisor,
  runId: string,
): Promise<{ readonly stdout: StreamEnd; readonly stderr: StreamEnd }> {
  const text = await readFile(join(runDirectory(supervisor, runId), "exit.json"), "utf8");
  return JSON.parse(text) as { stdout: StreamEnd; stderr: StreamEnd };
}

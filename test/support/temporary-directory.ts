import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeRunCgroups } from "../../src/anchor/instance/instance-directories.js";

export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
}

export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const path = await mkdtemp(join(tmpdir(), "hf-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Removes a state directory and the cgroups of its killed launchers, which the next supervisor would have removed. */
export async function removeStateDirectory(home: string): Promise<void> {
  const instances = join(home, "instances");
  for (const instanceId of await readdir(instances).catch(() => []))
    await removeRunCgroups(join(instances, instanceId), instanceId);
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
}

import { rename } from "node:fs/promises";
import { join } from "node:path";
import { findAnchor } from "../anchor/find.js";
import { inspect } from "../anchor/inspect.js";
import { readOwnFile, writeOwnFile } from "../store/own-file.js";
import type { ProcessIdentity } from "../store/run-record.js";

/** `gateway.json` in the instance directory: the gateway process, for when its socket does not answer. */
const noteOf = (home: string, instanceId: string): string =>
  join(home, "instances", instanceId, "gateway.json");

/** The configuration that a gateway runs with, whatever its config file says by now. May hold secrets, as that does. */
export const formerConfig = (home: string, instanceId: string): string =>
  join(home, "instances", instanceId, "config.toml");

/** Only for the holder of the instance's lock. */
export async function noteProcess(home: string, instanceId: string): Promise<void> {
  const [self] = await inspect(findAnchor(), [process.pid], { brief: true });
  if (self?.alive === true) await replace(noteOf(home, instanceId), JSON.stringify(self.identity));
}

export async function noteConfig(home: string, instanceId: string, text: string): Promise<void> {
  await replace(formerConfig(home, instanceId), text);
}

/** The process that was noted, if it still lives; null: none was, or it is gone. */
export async function notedProcess(home: string, instanceId: string): Promise<ProcessIdentity | null> {
  try {
    const noted = JSON.parse(await readOwnFile(noteOf(home, instanceId))) as ProcessIdentity;
    const [found] = await inspect(findAnchor(), [noted], { brief: true });
    return found?.alive === true && found.matches ? noted : null;
  } catch {
    return null;
  }
}

async function replace(path: string, text: string): Promise<void> {
  writeOwnFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

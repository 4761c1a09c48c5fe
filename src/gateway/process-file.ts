import { rename } from "node:fs/promises";
import { join } from "node:path";
import { findAnchorBinary } from "../anchor/binary/find.js";
import { inspectProcesses } from "../anchor/inspect/processes.js";
import { readOwnFile, writeOwnFile } from "../home/own-file.js";
import type { ProcessIdentity } from "../model/process.js";

/** `gateway.json` in the instance directory: the gateway process, for when its socket does not answer. */
const processFilePath = (home: string, instanceId: string): string =>
  join(home, "instances", instanceId, "gateway.json");

/** The configuration that a gateway runs with, whatever its config file says by now. May hold secrets, as that does. */
export const savedConfigPath = (home: string, instanceId: string): string =>
  join(home, "instances", instanceId, "config.toml");

/** Only for the holder of the instance's lock. */
export async function writeProcessFile(home: string, instanceId: string): Promise<void> {
  const [self] = await inspectProcesses(findAnchorBinary(), [process.pid], { brief: true });
  if (self?.alive === true)
    await replaceFile(processFilePath(home, instanceId), JSON.stringify(self.identity));
}

export async function saveConfig(home: string, instanceId: string, text: string): Promise<void> {
  await replaceFile(savedConfigPath(home, instanceId), text);
}

/** The process that was noted, if it still lives; null: none was, or it is gone. */
export async function readLiveProcess(home: string, instanceId: string): Promise<ProcessIdentity | null> {
  try {
    const noted = JSON.parse(await readOwnFile(processFilePath(home, instanceId))) as ProcessIdentity;
    const [found] = await inspectProcesses(findAnchorBinary(), [noted], { brief: true });
    return found?.alive === true && found.matches ? noted : null;
  } catch {
    return null;
  }
}

async function replaceFile(path: string, text: string): Promise<void> {
  writeOwnFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

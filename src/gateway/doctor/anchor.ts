import { release } from "node:os";
import { findAnchorBinary, requireSameVersion } from "../../anchor/binary.js";
import { boundaryElsewhere } from "../../anchor/inspect/boundary-and-tier.js";
import { inspectProcesses } from "../../anchor/inspect/processes.js";
import { errorMessage } from "../../home/errno.js";
import { bad, type Check, ok, warn } from "./check-result.js";

const SYSTEM_NAMES: Partial<Record<NodeJS.Platform, string>> = {
  linux: "Linux",
  darwin: "Darwin",
  win32: "Windows",
};

/** Checks which anchor is used, that it runs here, and how strong its identities of processes are. */
export async function checkAnchor(): Promise<Check> {
  const name = "anchor";
  const path = findAnchorBinary();
  const system = `${SYSTEM_NAMES[process.platform] ?? process.platform} ${release()}`;
  const isLinux = process.platform === "linux";
  try {
    requireSameVersion(path);
    const [self] = await inspectProcesses(path, [process.pid], { brief: true });
    if (self?.alive !== true && boundaryElsewhere(process.platform) === "group" && !isLinux)
      return warn(
        name,
        `${path} runs; ${system}: the anchor can identify only processes that it has started`,
        "use Linux, macOS or Windows",
      );
    if (self?.alive !== true)
      return bad(
        name,
        `${path} runs, but does not see this process`,
        isLinux ? "mount /proc for this pid namespace" : null,
      );
    if (self.identity.uniqueId === null)
      return warn(
        name,
        `${system}: processes have no unique id, so a recorded process is identified by other properties too`,
        isLinux ? "Linux 6.9 or newer" : null,
      );
    return ok(name, `${path} runs; ${system}, processes have a unique id`);
  } catch (error) {
    return bad(name, errorMessage(error));
  }
}

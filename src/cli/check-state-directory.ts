import { isAbsolute } from "node:path";
import { onReadableSecret } from "../home/path-trust.js";
import { requireSafeHome, resolveHome } from "../home/state-directory.js";
import { requireOriginal } from "../store/open-state-directory.js";
import { notice } from "./print/errors-and-notices.js";

/** Prints each file with a secret that other users can read. */
export function reportReadableSecrets(): void {
  onReadableSecret((message) => notice(message, "yellow"));
}

/** No command may use a copy of a state directory, or a directory that another user controls. */
export async function rejectForeignState(): Promise<void> {
  const home = resolveHome();
  // Checked before anything in the directory is read. Other errors of the directory are reported by the command that uses it.
  if (isAbsolute(home)) requireSafeHome(home);
  const { kind, recorded } = await requireOriginal(home);
  if (kind === "moved")
    notice(
      `this state directory was moved here from ${recorded?.path}; no run is open in it, so it is used as it is`,
      "dim",
    );
}

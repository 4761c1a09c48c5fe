import { statSync } from "node:fs";

/** Read permission of group or others. */
const READABLE = 0o044;

/** One sentence for each file with a secret that other users can read, in the order they were found. */
const found = new Map<string, string>();
let report: (message: string) => void = () => {};

/** To be called for a file that holds a secret and was read. */
export function noteIfReadable(path: string): void {
  // Windows has no modes.
  if (process.platform === "win32" || found.has(path)) return;
  const file = statSync(path, { throwIfNoEntry: false });
  const mode = file?.isFile() === true ? file.mode : 0;
  if ((mode & READABLE) === 0) return;
  const shown = (mode & 0o777).toString(8).padStart(4, "0");
  const message = `other users can read the secret in ${path} (mode ${shown}). Run \`chmod 600 '${path}'\``;
  found.set(path, message);
  report(message);
}

/** Sets the reporter, replacing the former one. It gets each message once; messages found before it was set come at once. */
export function reportReadableSecrets(to: (message: string) => void): void {
  report = to;
  for (const message of found.values()) to(message);
}

export function readableSecrets(): readonly string[] {
  return [...found.values()];
}

import { statSync } from "node:fs";

/** Read permission of group or others. */
const READABLE = 0o044;

/** One sentence for each file with a secret that other users can read, in the order they were found. */
const warnings = new Map<string, string>();
let reporter: (message: string) => void = () => {};

/** To be called for a file that holds a secret and was read. */
export function warnIfReadable(path: string): void {
  // Windows has no modes.
  if (process.platform === "win32" || warnings.has(path)) return;
  const file = statSync(path, { throwIfNoEntry: false });
  const mode = file?.isFile() === true ? file.mode : 0;
  if ((mode & READABLE) === 0) return;
  const shown = (mode & 0o777).toString(8).padStart(4, "0");
  const message = `other users can read the secret in ${path} (mode ${shown}). Run \`chmod 600 '${path}'\``;
  warnings.set(path, message);
  reporter(message);
}

/** Sets the reporter, replacing the former one. It gets each message once; messages found before it was set come at once. */
export function onReadableSecret(to: (message: string) => void): void {
  reporter = to;
  for (const message of warnings.values()) to(message);
}

export function readableSecrets(): readonly string[] {
  return [...warnings.values()];
}

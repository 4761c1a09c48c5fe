import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { sanitizeLine } from "../text/sanitize.js";
import { errnoOf } from "../home/errno.js";
import { findPathFault } from "../home/path-trust.js";
import { warnIfReadable } from "../home/readable-secrets.js";
import { DeliveryFailed } from "../tasks/delivery.js";
import type { SecretSource } from "../config/channels.js";

/** More is no secret, but the wrong file. */
const MAX_SECRET_BYTES = 4_096;

/** Read anew for every use: a secret that was changed holds at once. It is in no message. */
export async function readSecret(
  source: SecretSource,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string> {
  if ("file" in source) return readSecretFile(source.file);
  const said = env[source.env]?.trim() ?? "";
  if (said !== "") return said;
  // Another gateway, or the next one here, may have it.
  throw new DeliveryFailed(`the variable ${source.env} is not set in this environment`);
}

async function readSecretFile(path: string): Promise<string> {
  const fail = (why: string, cause?: unknown): DeliveryFailed =>
    new DeliveryFailed(`the secret in ${path} cannot be used: ${why}`, { cause });
  const fault = findPathFault(path);
  if (fault !== null) throw fail(`${fault.path} ${fault.problem}. ${fault.remedy}`);
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    throw fail(errnoOf(error) ?? "it cannot be opened", error);
  });
  try {
    if (!(await file.stat()).isFile()) throw fail("it is no file");
    const { bytesRead, buffer } = await file.read(
      Buffer.alloc(MAX_SECRET_BYTES + 1),
      0,
      MAX_SECRET_BYTES + 1,
      0,
    );
    if (bytesRead > MAX_SECRET_BYTES) throw fail(`it is longer than ${MAX_SECRET_BYTES} bytes`);
    const said = buffer.toString("utf8", 0, bytesRead).trim();
    if (said === "") throw fail("it is empty");
    warnIfReadable(path);
    return said;
  } finally {
    await file.close();
  }
}

/** A line from outside, fit to be shown, without what must not be, in case it repeats it: also with escapes in between. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  return secrets
    .filter((each) => each !== "")
    .toSorted((one, other) => other.length - one.length)
    .reduce((left, each) => left.replaceAll(each, "***"), sanitizeLine(text));
}

import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { SecretSource } from "../config/channels.js";
import { errnoCode } from "../home/errno.js";
import { findPathFault, warnIfReadable } from "../home/path-trust.js";
import { DeliveryFailed } from "../tasks/delivery-attempt.js";
import { sanitizeLine } from "../text/sanitize.js";

/** A larger file is not a secret. */
const MAX_SECRET_BYTES = 4_096;

/** Read for every use, so a changed secret takes effect at once. Error messages never contain it. */
export async function readSecret(
  source: SecretSource,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string> {
  if ("file" in source) return readSecretFile(source.file);
  const value = env[source.env]?.trim() ?? "";
  if (value !== "") return value;
  // Not permanent: another gateway, or the next one here, may have the variable.
  throw new DeliveryFailed(`the variable ${source.env} is not set in this environment`);
}

async function readSecretFile(path: string): Promise<string> {
  const fail = (why: string, cause?: unknown): DeliveryFailed =>
    new DeliveryFailed(`the secret in ${path} cannot be used: ${why}`, { cause });
  const fault = findPathFault(path);
  if (fault !== null) throw fail(`${fault.path} ${fault.problem}. ${fault.remedy}`);
  // O_NONBLOCK: opening a FIFO without a writer would block for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    throw fail(errnoCode(error) ?? "it cannot be opened", error);
  });
  try {
    if (!(await file.stat()).isFile()) throw fail("it is not a regular file");
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MAX_SECRET_BYTES + 1));
    if (bytesRead > MAX_SECRET_BYTES) throw fail(`it is longer than ${MAX_SECRET_BYTES} bytes`);
    const secret = buffer.toString("utf8", 0, bytesRead).trim();
    if (secret === "") throw fail("it is empty");
    warnIfReadable(path);
    return secret;
  } finally {
    await file.close();
  }
}

/** Sanitizes a line from a receiver and redacts the secrets that it repeats, also with escape sequences inside them. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  return secrets
    .filter((each) => each !== "")
    .toSorted((one, other) => other.length - one.length)
    .reduce((left, each) => left.replaceAll(each, "***"), sanitizeLine(text));
}

import { BadInput } from "../../errors.js";
import { encodeKeys } from "../../output/terminal-input.js";
import { encodePaste } from "../../output/paste.js";
import type { ScreenSnapshot } from "../../output/screen.js";
import { guessWaitingForInput } from "../../output/waiting-for-input.js";
import type { RunRecord } from "../../model/run.js";
import type { ScreenCache } from "../../queries/screen.js";

export function assertHasTerminal({ runId, io }: RunRecord): void {
  if (io !== "pty") throw new BadInput("runId", `run ${runId} has no terminal; start it with a PTY`);
}

export async function screenshot(screenCache: ScreenCache, record: RunRecord): Promise<ScreenSnapshot> {
  assertHasTerminal(record);
  return screenCache.snapshot(record);
}

export async function encodeKeysForRun(
  screenCache: ScreenCache,
  record: RunRecord,
  keys: readonly string[],
): Promise<Uint8Array> {
  return encodeKeys(keys, (await screenshot(screenCache, record)).modes);
}

export async function encodePasteForRun(
  screenCache: ScreenCache,
  record: RunRecord,
  text: string,
): Promise<{ readonly bytes: Uint8Array; readonly bracketed: boolean }> {
  const { modes } = await screenshot(screenCache, record);
  return { bytes: encodePaste(text, modes), bracketed: modes.bracketedPaste };
}

/** Whether a program seems to wait for somebody to type. */
export function seemsToWaitForInput(
  tail: string,
  idleMs: number,
): { readonly seems: boolean; readonly because: string } {
  return guessWaitingForInput({ tail: tail.slice(-500), idleMs });
}

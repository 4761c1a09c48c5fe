import { BadInput } from "../../errors.js";
import { encodeKeys } from "../../output/keys.js";
import { encodePaste } from "../../output/paste.js";
import type { ScreenSnapshot } from "../../output/screen.js";
import { waitingForInput } from "../../output/waiting-for-input.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Screens } from "../screens.js";

export function withTerminal({ runId, io }: RunRecord): void {
  if (io !== "pty") throw new BadInput("runId", `run ${runId} has no terminal; start it with a PTY`);
}

export async function screenshot(screens: Screens, record: RunRecord): Promise<ScreenSnapshot> {
  withTerminal(record);
  return screens.snapshot(record);
}

export async function keysFor(
  screens: Screens,
  record: RunRecord,
  keys: readonly string[],
): Promise<Uint8Array> {
  return encodeKeys(keys, (await screenshot(screens, record)).modes);
}

export async function pasteFor(
  screens: Screens,
  record: RunRecord,
  text: string,
): Promise<{ readonly bytes: Uint8Array; readonly bracketed: boolean }> {
  const { modes } = await screenshot(screens, record);
  return { bytes: encodePaste(text, modes), bracketed: modes.bracketedPaste };
}

/** Whether a program seems to wait for somebody to type. */
export function seemsToWait(
  tail: string,
  idleMs: number,
): { readonly seems: boolean; readonly because: string } {
  return waitingForInput({ tail: tail.slice(-500), idleMs });
}

import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import { encodeKeys } from "../../output/keys.js";
import { encodePaste } from "../../output/paste.js";
import { screenOf } from "../../output/screen-of.js";
import type { ScreenSnapshot } from "../../output/screen.js";
import { waitingForInput } from "../../output/waiting-for-input.js";
import type { RunRecord } from "../../store/run-record.js";
import type { RunReader } from "./run-reader.js";

export function withTerminal({ runId, io }: RunRecord): void {
  if (io !== "pty") throw new BadInput("runId", `run ${runId} has no terminal; start it with a PTY`);
}

/** What a run's terminal shows, drawn from its spool: no gateway needs to have watched it. */
export async function screenshot(reader: RunReader, record: RunRecord): Promise<ScreenSnapshot> {
  withTerminal(record);
  const { rows, cols } = defaults;
  const size = reader.run(record.runId)?.size ?? { rows, cols };
  const { screen } = await screenOf(
    (offset, maxBytes) => reader.readOutput(record.runId, "stdout", { offset, maxBytes }),
    size,
  );
  await using _screen = screen;
  return screen.snapshot();
}

export async function keysFor(
  reader: RunReader,
  record: RunRecord,
  keys: readonly string[],
): Promise<Uint8Array> {
  return encodeKeys(keys, (await screenshot(reader, record)).modes);
}

export async function pasteFor(
  reader: RunReader,
  record: RunRecord,
  text: string,
): Promise<{ readonly bytes: Uint8Array; readonly bracketed: boolean }> {
  const { modes } = await screenshot(reader, record);
  return { bytes: encodePaste(text, modes), bracketed: modes.bracketedPaste };
}

/** Whether a program seems to wait for somebody to type. */
export function seemsToWait(
  tail: string,
  idleMs: number,
): { readonly seems: boolean; readonly because: string } {
  return waitingForInput({ tail: tail.slice(-500), idleMs });
}

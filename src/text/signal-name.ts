import { constants } from "node:os";
import { BadInput } from "../errors.js";

const byName: ReadonlyMap<string, number> = new Map(Object.entries(constants.signals));
const byNumber: ReadonlyMap<number, string> = new Map(
  // Aliases (SIGIOT, SIGPOLL, SIGCLD) come later in the list than the name everybody knows.
  [...byName].toReversed().map(([name, number]) => [number, name]),
);

/** `SIGTERM` for 15; a number without a name, such as a real-time signal, becomes `SIG42`. */
export function signalName(number: number): string {
  return byNumber.get(number) ?? `SIG${number}`;
}

/** The number of `SIGTERM`, or of what `signalName` made up for a nameless one. Null when it is neither. */
export function signalNumber(name: string): number | null {
  const known = byName.get(name);
  if (known !== undefined) return known;
  const nameless = /^SIG(\d{1,3})$/.exec(name)?.[1];
  return nameless === undefined ? null : Number(nameless);
}

/** A signal as people write it: `TERM`, `sigterm`, `15`. */
export function parseSignal(text: string): number {
  const upper = text.trim().toUpperCase();
  const number = /^\d+$/.test(upper)
    ? Number(upper)
    : signalNumber(upper.startsWith("SIG") ? upper : `SIG${upper}`);
  if (number === null || number < 1 || number > 64)
    throw new BadInput(
      "signal",
      `${JSON.stringify(text)} is not a signal; use a name such as TERM or a number from 1 to 64`,
    );
  return number;
}

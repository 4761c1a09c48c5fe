import { constants } from "node:os";

const byName: ReadonlyMap<string, number> = new Map(Object.entries(constants.signals));
const byNumber: ReadonlyMap<number, string> = new Map(
  // Aliases (SIGIOT, SIGPOLL, SIGCLD) come later in the list than the common name.
  [...byName].toReversed().map(([name, number]) => [number, name]),
);

/** Returns `SIGTERM` for 15, and `SIG42` for a number without a name, such as a real-time signal. */
export function signalName(number: number): string {
  return byNumber.get(number) ?? `SIG${number}`;
}

/** Returns the number of a name that `signalName` returns, or null. */
export function signalNumber(name: string): number | null {
  const known = byName.get(name);
  if (known !== undefined) return known;
  const nameless = /^SIG(\d{1,3})$/.exec(name)?.[1];
  return nameless === undefined ? null : Number(nameless);
}

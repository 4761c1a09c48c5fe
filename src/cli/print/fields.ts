import { sanitizeLine } from "../../text/sanitize.js";

/** One line of a list of names and values; null: it is left out. */
export type DisplayField = readonly [name: string, value: string | null];

export function fieldLines(all: readonly DisplayField[]): string[] {
  const given = all.filter((field): field is [string, string] => field[1] !== null);
  const width = Math.max(0, ...given.map(([name]) => name.length));
  return given.map(([name, value]) => `${name.padEnd(width)}  ${sanitizeLine(value)}`);
}

/** Local time; JSON has milliseconds. */
export function formatTime(at: number): string {
  const date = new Date(at);
  const two = (number: number): string => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

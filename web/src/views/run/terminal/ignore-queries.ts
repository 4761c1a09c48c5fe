import type { IFunctionIdentifier, Terminal } from "@xterm/xterm";

/** Sequences that a terminal answers: status, cursor position, device attributes, modes, its size. */
const QUERIES: readonly IFunctionIdentifier[] = [
  { final: "n" },
  { prefix: "?", final: "n" },
  { final: "c" },
  { prefix: ">", final: "c" },
  { prefix: "=", final: "c" },
  { prefix: ">", final: "q" },
  { intermediates: "$", final: "p" },
  { prefix: "?", intermediates: "$", final: "p" },
  { final: "t" },
];
/** Operating system commands that ask for a colour with `?`. */
const COLOURS = [4, 10, 11, 12];

/**
 * Leaves queries of the program unanswered. The page is one of several viewers, and shows old output again: its answers
 * would arrive late, or twice, as input that no user has typed.
 */
export function ignoreQueries({ parser }: Terminal): void {
  for (const query of QUERIES) parser.registerCsiHandler(query, () => true);
  parser.registerDcsHandler({ intermediates: "$", final: "q" }, () => true);
  for (const command of COLOURS) parser.registerOscHandler(command, (data) => data.includes("?"));
}

import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { setTimeout } from "node:timers/promises";
import { isatty, type WriteStream } from "node:tty";
import { print } from "./print.js";
import { widthOf } from "./table.js";

/** What was typed before a question is no answer to it. */
export const TYPED_AHEAD_MS = 50;

/** Rows that are left for the prompt and for what is asked after the last screen. */
const PROMPT_ROWS = 3;

/**
 * Write lines to a terminal, waiting for Enter after each screen: the next one must not push it out of sight unread.
 * False: Ctrl-C, or `over` aborts.
 */
export async function showScreens(
  lines: readonly string[],
  output: WriteStream,
  over?: AbortSignal,
): Promise<boolean> {
  // Some terminals do not know their size, and say 0.
  const room = Math.max(1, (output.rows || 24) - PROMPT_ROWS);
  const pieces = lines.flatMap((line) => wrapped(line, output.columns || 80));
  for (let shown = 0; shown < pieces.length; shown += room) {
    output.write(`${pieces.slice(shown, shown + room).join("\n")}\n`);
    const left = pieces.length - shown - room;
    if (left > 0 && !(await pressedEnter(`-- ${left} more lines: Enter shows them --`, over))) return false;
  }
  return true;
}

/** The same for standard output, all at once where it is no terminal. */
export async function printScreens(lines: readonly string[]): Promise<boolean> {
  if (isatty(0) && isatty(1)) return showScreens(lines, process.stdout);
  print(`${lines.join("\n")}\n`);
  return true;
}

/** Of every row of a line but its first: no text in a line can look like the beginning of another line. */
const INDENT = "    ";

/** A terminal would wrap it too; done here so that its rows can be counted and told from lines. */
function wrapped(line: string, columns: number): string[] {
  const rows: string[] = [];
  const indent = columns > 2 * INDENT.length ? INDENT : "";
  let row = "";
  let used = 0;
  for (const character of line) {
    const width = widthOf(character);
    if (used + width > columns) {
      rows.push(row);
      row = indent;
      used = indent.length;
    }
    row += character;
    used += width;
  }
  return [...rows, row];
}

async function pressedEnter(prompt: string, signal?: AbortSignal): Promise<boolean> {
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const closed = once(asking, "close").then(() => null);
  const interrupted = once(asking, "SIGINT").then(() => null);
  try {
    await setTimeout(TYPED_AHEAD_MS);
    const answered = asking.question(prompt, signal === undefined ? {} : { signal }).catch(() => null);
    const answer = await Promise.race([answered, closed, interrupted]);
    if (answer === null) process.stderr.write("\n");
    return answer !== null;
  } finally {
    asking.close();
  }
}

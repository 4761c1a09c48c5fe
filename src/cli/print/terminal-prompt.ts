import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { setTimeout } from "node:timers/promises";
import { isatty, type WriteStream } from "node:tty";
import type { ResponseOf } from "../../api/contract.js";
import { BadInput } from "../../errors.js";
import { questionLines } from "../../sessions/paginate-question.js";
import { displayWidth } from "../../text/display-width.js";
import { print } from "./write-output.js";

/** Keys typed before the question are discarded after this time, so that they do not answer it. */
const TYPED_AHEAD_MS = 50;

/** Rows left free for the prompt and for the question after the last screen. */
const PROMPT_ROWS = 3;

/**
 * Writes lines to a terminal and waits for Enter after each screen, so that no line scrolls away unread. False: Ctrl-C
 * was pressed, or `over` was aborted.
 */
export async function showPaged(
  lines: readonly string[],
  output: WriteStream,
  over?: AbortSignal,
): Promise<boolean> {
  // Some terminals do not know their size and report 0.
  const room = Math.max(1, (output.rows || 24) - PROMPT_ROWS);
  const pieces = lines.flatMap((line) => wrapLine(line, output.columns || 80));
  for (let shown = 0; shown < pieces.length; shown += room) {
    output.write(`${pieces.slice(shown, shown + room).join("\n")}\n`);
    const left = pieces.length - shown - room;
    if (left > 0 && !(await waitForEnter(`-- ${left} more lines; press Enter --`, over))) return false;
  }
  return true;
}

/** Like `showPaged`, for stdout; all lines at once if it is not a terminal. */
export async function printPaged(lines: readonly string[]): Promise<boolean> {
  if (isatty(0) && isatty(1)) return showPaged(lines, process.stdout);
  print(`${lines.join("\n")}\n`);
  return true;
}

/** Indentation of all rows of a line except its first: no text can look like the beginning of another line. */
const INDENT = "    ";

/** Wraps a line as the terminal would, so that its rows can be counted and indented. */
function wrapLine(line: string, columns: number): string[] {
  const rows: string[] = [];
  const indent = columns > 2 * INDENT.length ? INDENT : "";
  let row = "";
  let used = 0;
  for (const character of line) {
    const width = displayWidth(character);
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

async function waitForEnter(prompt: string, over?: AbortSignal): Promise<boolean> {
  const answer = await ask(prompt, { over });
  if (answer === null) process.stderr.write("\n");
  return answer !== null;
}

interface AskOptions {
  readonly over?: AbortSignal | undefined;
  /** Called at Ctrl-C. The default ends the question. */
  readonly onInterrupt?: (end: () => void) => void;
}

/** Asks on stderr and reads a line from stdin. Null: the question ended without an answer. */
export async function ask(
  question: string,
  { over, onInterrupt = (end) => end() }: AskOptions = {},
): Promise<string | null> {
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const closed = once(asking, "close").then(() => null);
  asking.on("SIGINT", () => onInterrupt(() => asking.close()));
  try {
    await setTimeout(TYPED_AHEAD_MS);
    // Some versions of Node do not reject the question when the interface is closed.
    const answered = asking.question(question, over === undefined ? {} : { signal: over }).catch(() => null);
    return await Promise.race([answered, closed]);
  } finally {
    asking.close();
  }
}

/** Asks until `over`. Ctrl-C is no answer: it is reported to `interrupted`, which ends the question. */
export async function askUntil(
  question: string,
  over: AbortSignal,
  interrupted: () => void,
): Promise<string | null> {
  let left = false;
  const endLine = (): void => {
    if (!left) process.stderr.write("\n");
    left = true;
  };
  const onInterrupt = (): void => {
    endLine();
    interrupted();
  };
  const answer = await ask(question, { over, onInterrupt });
  if (answer === null) endLine();
  return answer;
}

/** The answer to `[y/N/later]`. Null: later. */
export function verdictIn(answer: string): "allow" | "deny" | null {
  if (/^l/i.test(answer.trim())) return null;
  return /^y(es)?$/i.test(answer.trim()) ? "allow" : "deny";
}

/** Asks for confirmation. Without a terminal, `--yes` is required. Ctrl-C and Ctrl-D are a no. */
export async function confirm(question: string, yes: boolean): Promise<boolean> {
  if (yes) return true;
  if (!isatty(0) || !isatty(2))
    throw new BadInput(
      "yes",
      "there is no terminal to confirm on; add --yes to confirm, or --dry-run to preview. Nothing was changed",
    );
  const answer = await ask(`${question} [y/N] `);
  if (answer === null) process.stderr.write("\n");
  return /^y(es)?$/i.test(answer?.trim() ?? "");
}

type QuestionPage = Pick<ResponseOf<"showApproval">, "page" | "pages" | "parts" | "digest">;

/** Reads all pages of a question to the operator. `digest` is null if the question does not wait at this gateway. */
export async function readWholeQuestion<First extends QuestionPage>(read: (page: number) => Promise<First>) {
  const first = await read(1);
  const parts = [...first.parts];
  let { digest } = first;
  for (let page = 2; page <= first.pages; page++) {
    const next = await read(page);
    parts.push(...next.parts);
    ({ digest } = next);
  }
  return { first, parts, digest };
}

/** The question as lines of text, followed by how to reveal masked secrets and how to answer. `show` and `allow` are subcommands of `command`. */
export function wholeQuestionLines(
  { parts, digest }: Pick<QuestionPage, "parts" | "digest">,
  command: string,
  id: string,
): string[] {
  const masked = parts.reduce((sum, part) => sum + part.masked, 0);
  return [
    ...questionLines(parts),
    ...(masked === 0 ? [] : [`masked secrets: ${masked}; to see them: ${command} show ${id} --reveal`]),
    ...(digest === null ? [] : [`to allow exactly this question: ${command} allow ${id} --digest ${digest}`]),
  ];
}

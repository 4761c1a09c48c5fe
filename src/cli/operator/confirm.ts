import { once } from "node:events";
import { createInterface } from "node:readline/promises";
import { isatty } from "node:tty";
import { BadInput } from "../../errors.js";

/** Ask before something is ended. Without a terminal there is nobody to ask, and `--yes` must have said it. */
export async function confirm(question: string, yes: boolean): Promise<boolean> {
  if (yes) return true;
  if (!isatty(0) || !isatty(2))
    throw new BadInput(
      "yes",
      "there is no terminal to ask on; say --yes to go ahead, or --dry-run to look. Nothing was changed",
    );
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // Ctrl-C or Ctrl-D is a no; not every Node says so by rejecting the question.
    const closed = once(asking, "close").then(() => "\n");
    const answer = await Promise.race([asking.question(`${question} [y/N] `).catch(() => "\n"), closed]);
    if (answer === "\n") process.stderr.write("\n");
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    asking.close();
  }
}

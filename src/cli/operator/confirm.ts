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
    return /^y(es)?$/i.test((await asking.question(`${question} [y/N] `)).trim());
  } catch {
    // Ctrl-C or Ctrl-D is a no.
    process.stderr.write("\n");
    return false;
  } finally {
    asking.close();
  }
}

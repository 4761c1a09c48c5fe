#!/usr/bin/env node
import { reportError } from "./print/errors-and-notices.js";
import { runPlainCommand } from "./commands-without-parser.js";

async function main(argv: readonly string[]): Promise<number> {
  return (await runPlainCommand(argv.slice(2))) ?? (await import("./program.js")).runProgram(argv);
}

void main(process.argv)
  .catch((error: unknown) => reportError(error))
  // Explicitly: a terminal that is still being read must not keep a finished command alive.
  .then((code) => process.exit(code));

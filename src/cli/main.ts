#!/usr/bin/env node
import { reportError } from "./print/stderr.js";
import { exitCodes } from "./print/exit-code.js";
import { runProgram } from "./program.js";

try {
  process.exitCode = await runProgram(process.argv);
} catch (error) {
  process.exitCode = reportError(error);
}
// Explicitly: a terminal that is still being read must not keep a finished command alive.
process.exit(process.exitCode ?? exitCodes.failure);

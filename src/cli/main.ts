#!/usr/bin/env node
import { reportError } from "./print/errors-and-notices.js";
import { runProgram } from "./program.js";

void runProgram(process.argv)
  .catch((error: unknown) => reportError(error))
  // Explicitly: a terminal that is still being read must not keep a finished command alive.
  .then((code) => process.exit(code));

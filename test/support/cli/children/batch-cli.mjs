// Executes command lines like dist/cli/main.js, one after another, without starting Node for each.
import { writeSync } from "node:fs";
import { reportError } from "../../../../dist/cli/print/stderr.js";
import { runProgram } from "../../../../dist/cli/program.js";

process.on("message", ({ args, mark }) => void answer(args, mark));

async function answer(args, mark) {
  let code;
  try {
    code = await runProgram(["node", "holdfast", ...args]);
  } catch (error) {
    code = reportError(error);
  }
  writeSync(1, mark);
  writeSync(2, mark);
  process.send(code);
}

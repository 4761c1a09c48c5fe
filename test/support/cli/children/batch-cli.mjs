// Executes command lines like dist/cli/main.js, one after another, without starting Node for each.
import { writeSync } from "node:fs";
import { reportError } from "../../../../dist/cli/print/errors-and-notices.js";
import { defaults } from "../../../../dist/defaults.js";

Object.assign(defaults, JSON.parse(process.argv[2]));
const { runProgram } = await import("../../../../dist/cli/program.js");

process.on("message", ({ args, env, mark }) => void answer(args, env, mark));

async function answer(args, env, mark) {
  let code;
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    code = await runProgram(["node", "holdfast", ...args]);
  } catch (error) {
    code = reportError(error);
  }
  for (const name of Object.keys(env)) delete process.env[name];
  Object.assign(process.env, before);
  writeSync(1, mark);
  writeSync(2, mark);
  process.send(code);
}

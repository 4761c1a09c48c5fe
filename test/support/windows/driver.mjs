// Runs on Windows. Starts each command of the request in turn, and writes how each ended to the answer: Wine cuts exit
// codes to eight bits for its caller, and gives Windows programs no Unix pipes.
//
// Usage: node driver.mjs <request.json> <answer.json>

import { spawn } from "node:child_process";
import { readFileSync, renameSync, writeFileSync } from "node:fs";

const [request, answer] = process.argv.slice(2);
const results = [];
for (const { argv, env, input, cwd } of JSON.parse(readFileSync(request, "utf8"))) {
  const [program, ...args] = argv;
  const child = spawn(program, args, { env: { ...process.env, ...env }, cwd, windowsHide: true });
  const result = { code: null, stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"])
    child[stream].setEncoding("utf8").on("data", (part) => {
      result[stream] += part;
    });
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  await new Promise((resolve) => {
    child.once("error", (error) => {
      result.stderr += error.message;
      resolve();
    });
    child.once("close", (code) => {
      result.code = code;
      resolve();
    });
  });
  results.push(result);
}
writeFileSync(`${answer}.new`, JSON.stringify(results));
renameSync(`${answer}.new`, answer);

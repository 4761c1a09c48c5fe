import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { AnchorUnusable } from "../errors.js";
import { errnoCode } from "../home/errno.js";
import { parseJson } from "../text/parse-json.js";
import { missingBinaryHint } from "./binary.js";

/** Far above the answer for thousands of processes; a longer answer is invalid. */
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

/** Variables that tests pass to the binary: weaker tiers, and options of the sanitizers. */
const PASSED_VARIABLES = ["HOLDFAST_ANCHOR_WEAKEN", "HOLDFAST_NO_SCOPE", "ASAN_OPTIONS", "UBSAN_OPTIONS"];

/** The anchor binary needs nothing else from the environment. A variable that it does not get cannot reach a run. */
export function anchorEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  return Object.fromEntries(
    PASSED_VARIABLES.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])),
  );
}

/** Runs the anchor in a one-shot mode and returns its output lines. `extraFds` become its descriptors from 3 on. */
export function runAnchorMode(
  anchorPath: string,
  args: readonly string[],
  input: string,
  extraFds: readonly number[] = [],
): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(anchorPath, args, {
      stdio: ["pipe", "pipe", "pipe", ...extraFds],
      env: anchorEnvironment(),
      cwd: "/",
      windowsHide: true,
    }) as ChildProcessByStdio<Writable, Readable, Readable>;
    const answer: Buffer[] = [];
    let size = 0;
    let stderrText = "";
    const fail = (why: string, cause?: Error): void => {
      reject(new AnchorUnusable(anchorPath, `\`anchor ${args[0] ?? ""}\` failed: ${why}`, { cause }));
    };
    child.on("error", (error) =>
      fail(
        errnoCode(error) === "ENOENT"
          ? `there is no ${anchorPath}; to fix it, ${missingBinaryHint(anchorPath)}`
          : error.message,
        error,
      ),
    );
    child.stdout.on("data", (part: Buffer) => {
      size += part.length;
      if (size <= MAX_OUTPUT_BYTES) answer.push(part);
    });
    child.stderr.setEncoding("utf8").on("data", (part: string) => {
      if (stderrText.length < 1000) stderrText += part;
    });
    // The process may exit without reading all input; its exit status reports the result.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    child.on("close", (code, signal) => {
      if (signal !== null) return fail(`it was killed by ${signal}`);
      if (code !== 0) return fail(stderrText.trim() || `it ended with status ${code}`);
      if (size > MAX_OUTPUT_BYTES) return fail("its answer is too long");
      resolve(
        Buffer.concat(answer)
          .toString("utf8")
          .split("\n")
          .filter((line) => line !== ""),
      );
    });
  });
}

/**
 * Runs a one-shot mode and parses each line of its answer. Rejects with AnchorUnusable if a line is invalid, or the
 * number of lines is not `expected`.
 */
export async function queryAnchor<T>(
  anchorPath: string,
  args: readonly string[],
  input: string,
  parse: (value: unknown) => T,
  expected?: number,
): Promise<readonly T[]> {
  const lines = await runAnchorMode(anchorPath, args, input);
  const answers = lines.flatMap((line) => parseJson(line, (value) => [parse(value)]) ?? []);
  if (answers.length === lines.length && lines.length === (expected ?? lines.length)) return answers;
  throw new AnchorUnusable(
    anchorPath,
    `\`anchor ${args[0]}\` gave an invalid answer of ${lines.length} lines; it was ignored`,
  );
}

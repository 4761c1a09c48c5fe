import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { AnchorUnusable } from "../../errors.js";
import { errnoCode } from "../../home/errno.js";
import { missingBinaryHint } from "./find.js";
import { anchorEnvironment } from "./start-launcher.js";

/** Far above the answer for thousands of processes; a longer answer is invalid. */
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

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

import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { AnchorUnusable } from "../../errors.js";
import { errnoCode } from "../../home/errno.js";
import { missingBinaryHint } from "./find.js";
import { anchorEnvironment } from "./start-launcher.js";

/** Far above what thousands of processes take; beyond it, the answer is not one. */
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

/** Run the anchor in a one-shot mode and return its output lines. `passed`: its descriptors from 3 on. */
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
    // It may leave without reading everything; its status tells then.
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

import { expect, test } from "vitest";
import { NotSteering, StdinClosed } from "../../src/errors.js";
import { retryWhileFenced } from "../../src/supervisor/run-handle.js";

test("a fenced call is repeated until the lease is renewed, the signal aborts or another error occurs", async () => {
  const fenced = new NotSteering("run_1", "its lease could not be renewed in time");
  const closed = new StdinClosed("run_1", "nothing reads it");
  const answers: (Error | string)[] = [fenced, fenced, "done", closed, fenced];
  const attempt = async (): Promise<string> => {
    const answer = answers.shift() ?? "asked too often";
    if (typeof answer === "string") return answer;
    throw answer;
  };
  expect(await retryWhileFenced(attempt)).toBe("done");
  await expect(retryWhileFenced(attempt)).rejects.toBe(closed);
  await expect(retryWhileFenced(attempt, AbortSignal.abort())).rejects.toBe(fenced);
});

import { constants } from "node:os";
import { expect, test } from "vitest";
import { runExitCode, spawnErrorCode } from "../../../src/cli/print/exit-code.js";
import type { EndReason, RunExit } from "../../../src/model/run.js";

const { ENOENT, EACCES, ENOEXEC, EISDIR, E2BIG } = constants.errno;

test.each<[EndReason, Partial<RunExit>, number]>([
  ["exit", { code: 0 }, 0],
  ["exit", { code: 7 }, 7],
  ["exit", { code: 255 }, 255],
  ["signal", { signal: "SIGSEGV" }, 139],
  ["signal", { signal: "SIGKILL" }, 137],
  ["signal", { signal: "SIG34" }, 162],
  ["overall-timeout", { signal: "SIGTERM" }, 124],
  ["overall-timeout", { code: 0 }, 124],
  ["no-output-timeout", { signal: "SIGKILL" }, 124],
  ["ownership-escape", { code: 0 }, 120],
  ["ownership-escape", { code: 3 }, 3],
  ["ownership-escape", { signal: "SIGINT" }, 130],
  ["ownership-escape", {}, 120],
  ["spawn-error", { errno: ENOENT }, 127],
  ["spawn-error", { errno: EACCES }, 126],
  ["spawn-error", { errno: ENOEXEC }, 126],
  ["spawn-error", { errno: EISDIR }, 126],
  ["spawn-error", { errno: E2BIG }, 126],
  ["spawn-error", {}, 125],
  ["manual-cancel", { signal: "SIGTERM" }, 143],
  ["manual-cancel", { signal: "SIGKILL" }, 137],
  ["manual-cancel", { code: 0 }, 143],
  ["manual-cancel", { code: 130 }, 130],
  ["manual-cancel", {}, 143],
  ["shutdown", { signal: "SIGTERM" }, 143],
  ["owner-lost", { signal: "SIGTERM" }, 143],
  ["lost", {}, 125],
  ["lost", { code: 0 }, 125],
  ["exit", {}, 125],
])("a run ended by %s with %j exits with %i", (reason, status, code) => {
  const exit = {
    reason,
    actor: "",
    code: null,
    signal: null,
    source: "anchor",
    detail: null,
    errno: null,
    ...status,
  };
  expect(runExitCode({ exit: exit as RunExit })).toBe(code);
});

test("a run that has not ended is Holdfast's failure", () => {
  expect(runExitCode({ exit: null })).toBe(125);
});

test("a missing directory is a usage error, and another step before exec is a failure of Holdfast", () => {
  expect(spawnErrorCode(ENOENT, "cwd")).toBe(2);
  expect(spawnErrorCode(ENOENT, "boundary")).toBe(125);
  expect(spawnErrorCode(ENOENT, "exec")).toBe(127);
});

import { constants } from "node:os";
import { expect, test } from "vitest";
import { describeSpawnFailure } from "../../../src/anchor/protocol/errors.js";

const { errno } = constants;
const attempt = { cwd: "/srv/app", command: "claude" };

test.each([
  ["cwd", errno.ENOENT, "cannot enter directory /srv/app: no such directory"],
  ["cwd", errno.ENOTDIR, "cannot enter directory /srv/app: it is not a directory"],
  ["cwd", errno.EACCES, "cannot enter directory /srv/app: permission denied"],
  ["exec", errno.ENOENT, "cannot run claude: no such command, or the interpreter it names is missing"],
  ["exec", errno.ENOEXEC, "cannot run claude: this system cannot execute it; a script needs a #! line"],
  [
    "fork",
    errno.EAGAIN,
    "cannot start a process: the limit of processes for this user or container is reached",
  ],
  ["directory", errno.ENOSPC, "cannot write the run's directory: the disk or quota is full"],
  ["pty", errno.ENOSPC, "cannot start the run (pty): no space left on device"],
])("%s with errno %i reads: %s", (step, number, sentence) => {
  expect(describeSpawnFailure({ errno: number, step, message: "" }, attempt)).toBe(sentence);
});

test("an unknown step keeps the anchor's message", () => {
  expect(describeSpawnFailure({ errno: 0, step: "warp", message: "no dilithium" }, null)).toBe(
    "cannot start the run (warp): no dilithium",
  );
});

test("the message is complete without the start attempt", () => {
  expect(describeSpawnFailure({ errno: errno.ENOENT, step: "exec", message: "" }, null)).toMatch(
    /^cannot run the command: /,
  );
});

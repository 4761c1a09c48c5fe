import { getPriority } from "node:os";
import { expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { waitFor } from "../../support/wait-for.js";

// Also true without the privilege to raise the priority.
test("a launcher that cleaned up after an anchor returns to its original priority, and so do its runs", async () => {
  const given = getPriority();
  const launcher = await RawLauncher.start();
  const lost = await launcher.run("run_a", "exec sleep 3043");
  lost.send(encodeMessage("status", {}));
  process.kill((await lost.receive("welcome")).anchorPid, "SIGKILL");
  await waitFor(async () => (await launcher.readRunFile("run_a", "swept.json")) !== null);
  const next = await launcher.run("run_b", "nice");
  expect(getPriority(launcher.pid)).toBe(given);
  await next.receive("exited");
  expect(await launcher.output("run_b")).toBe(`${given}\n`);
});

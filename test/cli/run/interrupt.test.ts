import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { cliPath, waitForText, CliFixture } from "../../support/cli/cli-fixture.js";
import { fixtureFactory, SUPERVISION_MODES } from "../../support/cli/supervision-modes.js";
import { scaled } from "../../support/machine-speed.js";

/** Ready when its trap is set; then it waits in a child, which TERM reaches as well. */
const polite = `trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done`;
const stubborn = `trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done`;

async function lastRecord(cliFixture: CliFixture): Promise<RunRecord | undefined> {
  const { stdout } = await cliFixture.holdfast("runs", "list", "--all", "--json");
  return (JSON.parse(stdout) as RunRecord[])[0];
}

describe.each(SUPERVISION_MODES)("%s", (mode) => {
  const open = fixtureFactory(mode);

  describe("a signal to holdfast", () => {
    test.each([
      ["SIGINT", 130, "cancelling… press Ctrl-C again to kill"],
      ["SIGTERM", 143, "cancelling…"],
      ["SIGHUP", 129, "cancelling…"],
    ] as const)("%s asks the whole tree to terminate and exits with %i", async (signal, code, message) => {
      await using cliFixture = await open();
      const { child, finished } = cliFixture.start("run", "--", "sh", "-c", polite);
      await waitForText(child.stdout, "ready");
      child.kill(signal);
      const result = await finished;
      expect(result).toMatchObject({ code, stdout: "ready\ntold\n" });
      expect(result.stderr.split("\n")[0]).toBe(`holdfast: ${message}`);
      expect(await lastRecord(cliFixture)).toMatchObject({
        state: "exited",
        exit: { reason: "manual-cancel", actor: expect.stringMatching(/^cli:/), code: 0 },
        emptiness: "proven",
      });
    });

    test("the second one kills, without waiting for the grace", async () => {
      await using cliFixture = await open();
      const { child, finished } = cliFixture.start("run", "--grace", "25s", "--", "sh", "-c", stubborn);
      await waitForText(child.stdout, "ready");
      const began = performance.now();
      child.kill("SIGINT");
      await waitForText(child.stderr, "cancelling");
      child.kill("SIGINT");
      const result = await finished;
      expect(performance.now() - began).toBeLessThan(scaled(5_000));
      expect(result.code).toBe(130);
      expect(result.stderr).toContain("holdfast: killing…");
      expect(await lastRecord(cliFixture)).toMatchObject({
        exit: { reason: "manual-cancel", signal: "SIGKILL" },
      });
    });

    test("after the grace it kills by itself", async () => {
      await using cliFixture = await open();
      const { child, finished } = cliFixture.start("run", "--grace", "300ms", "--", "sh", "-c", stubborn);
      await waitForText(child.stdout, "ready");
      child.kill("SIGTERM");
      expect((await finished).code).toBe(143);
      expect(await lastRecord(cliFixture)).toMatchObject({ exit: { signal: "SIGKILL" } });
    });

    test("at any moment of the start leaves nothing behind", async () => {
      await using cliFixture = await open();
      for (const delay of [50, 120, 160, 200, 240, 280, 320, 400]) {
        const { child, finished } = cliFixture.start("run", "--", "sleep", "60");
        child.stdin.end();
        await setTimeout(delay);
        child.kill("SIGTERM");
        const { code, signal } = await finished;
        // Before its first line of JavaScript runs, Node itself dies of it.
        expect(signal === "SIGTERM" || code === 143, `after ${delay} ms: ${code} ${signal}`).toBe(true);
      }
      await cliFixture.expectNoProcesses();
    });

    test("ends it even when nobody reads the output any more", async () => {
      await using cliFixture = await open();
      const child = spawn(process.execPath, [cliPath, "run", "--", "yes"], {
        env: cliFixture.env,
        stdio: ["ignore", "pipe", "ignore"],
      });
      // The pipe fills and stays full.
      await once(child.stdout, "readable");
      await setTimeout(500);
      const began = performance.now();
      child.kill("SIGTERM");
      const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
      expect(performance.now() - began).toBeLessThan(scaled(6_000));
      expect(code === 143 || signal === "SIGTERM").toBe(true);
      child.stdout.destroy();
      expect(await lastRecord(cliFixture)).toMatchObject({
        state: "exited",
        exit: { reason: "manual-cancel" },
      });
    });
  });

  test("deadlines hold although nobody reads the output", async () => {
    await using cliFixture = await open();
    const { code, stdout } = await cliFixture.shell(
      "holdfast run --timeout 1s -- yes | (sleep 2; wc -c >/dev/null); echo ${PIPESTATUS[0]}",
    );
    expect({ code, stdout }).toEqual({ code: 0, stdout: "124\n" });
  });
});

test("SIGKILL, which it cannot see: its anchor ends the tree", async () => {
  await using cliFixture = await CliFixture.open();
  const { child, finished } = cliFixture.start(
    "run",
    "--",
    "sh",
    "-c",
    `(setsid sh -c "${stubborn}" &); ${stubborn}`,
  );
  await waitForText(child.stdout, "ready");
  child.kill("SIGKILL");
  await finished;
  // Two seconds for an owner to come back, five of grace.
  await cliFixture.expectNoProcesses(12_000);
});

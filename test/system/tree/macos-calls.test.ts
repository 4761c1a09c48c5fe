import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { useDarwinAnchor, whyNoDarwinShim } from "../../support/darwin/darwin-anchor.js";
import { readProcess, signalProcess } from "../../support/live-processes.js";
import { waitFor } from "../../support/wait-for.js";

// System calls that behave differently on macOS than on Linux, as the shims do.
useDarwinAnchor();

const STOP = encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "one", graceMs: 50 });

test.skipIf(whyNoDarwinShim !== null)(
  "a command that has closed its input is seen while nothing is written to it",
  async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "exec <&-; exec sleep 3065");
    expect(await owner.receive("stdin")).toMatchObject({ closed: true });
    owner.send(STOP);
    expect(JSON.parse((await owner.receive("exited")).json)).toMatchObject({ reason: "shutdown" });
  },
);

test.skipIf(whyNoDarwinShim !== null)(
  "a command that was stopped has not ended, and one that was killed has its signal on record",
  async () => {
    const launcher = await RawLauncher.start();
    const stopped = await launcher.run("run_a", "kill -STOP $$; exit 3");
    const { root } = (await launcher.readRunFile("run_a", "anchor.json")) as { root: { pid: number } };
    const leader = readProcess(root.pid);
    if (!leader) throw new Error("the command does not run");
    await waitFor("it has stopped", () => readProcess(root.pid)?.state === "T");
    // When the anchor answers, the kernel has reported the stop to it.
    stopped.send(encodeMessage("members", { requestId: "one" }));
    await stopped.receive("membersAre");
    signalProcess(leader, "SIGCONT");
    expect(JSON.parse((await stopped.receive("exited")).json)).toMatchObject({
      ...{ reason: "exit", leader: { code: 3 }, emptiness: "proven" },
    });

    const killed = await launcher.run("run_b", "kill -USR1 $$");
    expect(JSON.parse((await killed.receive("exited")).json)).toMatchObject({ leader: { signal: 10 } });
  },
);

test.skipIf(whyNoDarwinShim !== null)(
  "the last output of a terminal is kept, although the system discards what is unread when it is closed",
  async () => {
    const bound = 64 * 1024;
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "while :; do echo 0123456789; done", {
      ...{ pty: 1, outPolicy: 1, outBound: bound },
    });
    const { root } = (await launcher.readRunFile("run_a", "anchor.json")) as { root: { pid: number } };
    const output = async (): Promise<string> => {
      const directory = launcher.runDirectory("run_a");
      const segments = (await readdir(directory)).filter((name) => name.startsWith("stdout."));
      const parts = segments.toSorted().map((name) => readFile(join(directory, name), "latin1"));
      return (await Promise.all(parts)).join("");
    };
    await waitFor("the anchor does not read any more, and the command waits", async () => {
      return (await output()).length >= bound && readProcess(root.pid)?.state === "S";
    });
    owner.send(STOP);
    await owner.receive("exited");
    const all = await output();
    expect(all.length).toBeGreaterThan(bound);
    expect(all.replaceAll("0123456789\r\n", "")).toMatch(/^0?1?2?3?4?5?6?7?8?9?\r?$/);
  },
);

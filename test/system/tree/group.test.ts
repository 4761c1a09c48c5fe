import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import type { CommandInput } from "../../../src/supervisor/api.js";
import { groupTier, useOtherAnchor } from "../../support/anchor/other-anchor.js";
import { signalProcess } from "../../support/live-processes.js";
import { rootUser } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { waitFor } from "../../support/wait-for.js";
import { graceMs, TreeFixture } from "./tree-fixture.js";

useOtherAnchor();

const whyNot = groupTier.whyNot ?? rootUser.whyNot;

/** Opens a fixture whose bystander must survive. Orphans are reaped: a zombie is still in its process group. */
async function open(): Promise<TreeFixture> {
  return TreeFixture.open(rootUser, groupTier, [findAnchorBinary({}), "init", "--"]);
}

function sleeper(fixture: TreeFixture, number: number): string {
  return `sleep ${100_000 + number}.${fixture.processes.token}`;
}

describe.skipIf(whyNot !== null)("a system of which only POSIX is known", () => {
  test.each(["pipe", "pty"] as const)("a plain tree is ended by a stop: %s", async (io) => {
    await using fixture = await open();
    const script = `trap '' HUP; ${sleeper(fixture, 1)} & ${sleeper(fixture, 2)} & wait`;
    const input = { io, argv: ["sh", "-c", script] } as CommandInput;
    const { record } = await fixture.library.spawn(input, { graceMs });
    expect(record.tier).toMatch(groupTier.recorded);
    expect(record.boundary?.note).toContain("process group");
    await waitFor("the tree runs", () => fixture.sleepers().length === 2);
    fixture.library.cancel({ actor: "test" });
    const ended = (await fixture.library.receive("ended")).record;
    expect(fixture.processes.ofRuns()).toEqual([]);
    expect(ended).toMatchObject({
      state: "exited",
      emptiness: "unproven",
      exit: { reason: "manual-cancel" },
    });
    expect(ended.exit?.detail).toContain("its process group is empty");
    await fixture.library.close();
  });

  test("a process that ignores TERM and outlives the leader is killed", async () => {
    await using fixture = await open();
    const script = `(trap '' TERM; ${sleeper(fixture, 1)}; ${sleeper(fixture, 2)}) & sleep 0.2; exit 3`;
    await fixture.library.spawn({ io: "pipe", argv: ["sh", "-c", script] }, { graceMs });
    const ended = (await fixture.library.receive("ended")).record;
    expect(fixture.processes.ofRuns()).toEqual([]);
    expect(ended).toMatchObject({ emptiness: "unproven", exit: { reason: "exit", code: 3 } });
    await fixture.library.close();
  });

  test("an ordinary run ends at once", async () => {
    await using fixture = await open();
    const began = performance.now();
    await fixture.library.spawn({ io: "pipe", argv: ["sh", "-c", "ls; ls"] }, { graceMs: 60_000 });
    const ended = (await fixture.library.receive("ended")).record;
    expect(ended.exit).toMatchObject({ reason: "exit", code: 0 });
    expect(performance.now() - began).toBeLessThan(30_000);
    await fixture.library.close();
  });

  test("a command that cannot be executed is proven to have left nothing", async () => {
    await using fixture = await open();
    const argv = [join(fixture.sandbox.directory, "missing")];
    await fixture.library.spawn({ io: "pipe", argv }, { graceMs }).catch(() => {});
    await fixture.library.kill();
    await using successor = await LibraryProcess.open(fixture.sandbox);
    const { runs } = await successor.list();
    expect(runs).toMatchObject([{ state: "exited", emptiness: "proven", exit: { reason: "spawn-error" } }]);
    await successor.close();
  });

  test("a process with a session of its own is left, and the record says that one has left", async () => {
    await using fixture = await open();
    const script = `setsid ${sleeper(fixture, 1)} >/dev/null 2>&1 & sleep 0.3`;
    await fixture.library.spawn({ io: "pipe", argv: ["sh", "-c", script] }, { graceMs });
    const ended = (await fixture.library.receive("ended")).record;
    expect(ended).toMatchObject({ emptiness: "unproven" });
    expect(ended.exit?.detail).toContain("left its process group");
    expect(fixture.sleepers()).toHaveLength(1);
    await fixture.library.close();
  });

  test("a process that is no child of its own is refused, also with its true pid", async () => {
    await using fixture = await open();
    const [bystander] = fixture.processes.all();
    const { pid = 0, startTime = 0 } = bystander ?? {};
    for (const start of [startTime, 1, Date.now()]) {
      const words = ["reap", "--pid", String(pid), "--start", String(start), "--lease", "any"];
      const answer: unknown = JSON.parse(execFileSync(findAnchorBinary(), words, { encoding: "utf8" }));
      expect(answer).toMatchObject({ verified: false, killed: 0, emptiness: "unproven" });
    }
    expect(fixture.processes.missingBystanders()).toEqual([]);
    await fixture.library.close();
  });

  test("without its anchor a run is lost, and none of its processes is signalled", async () => {
    await using fixture = await open();
    const { record } = await fixture.library.spawn(
      { io: "pipe", argv: ["sh", "-c", `exec ${sleeper(fixture, 1)}`] },
      { graceMs },
    );
    await waitFor("it runs", () => fixture.sleepers().length === 1);
    const anchor = fixture.sandbox.holdfastProcesses().find(({ pid }) => pid === record.anchor?.pid);
    if (anchor === undefined) throw new Error("there is no anchor");
    signalProcess(anchor, "SIGKILL");
    const ended = (await fixture.library.receive("ended")).record;
    expect(ended).toMatchObject({ emptiness: "unproven", exit: { reason: "lost" } });
    // Another process may have its pid: a pid alone is no identity.
    expect(fixture.sleepers()).toHaveLength(1);
    await fixture.library.close();
  });
});

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PREVIOUS_PROTOCOL } from "../../../src/anchor/protocol/messages.js";
import { anchorDirectory, anchorSources } from "../../../scripts/anchor-sources.mjs";
import { RunGate, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { isInstalled } from "../packaging/packages.js";
import { findByRunMarker } from "../../support/live-processes.js";

describe.skipIf(process.platform !== "linux" || !isInstalled("cc"))("an anchor of the former version", () => {
  let directory: string;
  let former: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "hf-"));
    former = join(directory, "anchor");
    const flags = ["-std=c11", "-D_GNU_SOURCE", "-I", anchorDirectory, `-DPROTOCOL=${PREVIOUS_PROTOCOL}`];
    await promisify(execFile)("cc", [...flags, "-o", former, ...anchorSources("linux", ".c")]);
  });
  afterAll(() => rm(directory, { recursive: true }));

  /** The protocol version of the anchor of a run. */
  async function protocolOf(fixture: BackgroundGateway, runId: string): Promise<number> {
    const { ownerInstanceId } = await fixture.record(runId);
    const file = join(fixture.home, "instances", ownerInstanceId, "runs", runId, "anchor.json");
    return (JSON.parse(await readFile(file, "utf8")) as { protocol: number }).protocol;
  }

  test("works with a newer gateway: output, input, stopping, exit code", async () => {
    await using fixture = await BackgroundGateway.open();
    await using gate = await RunGate.create();
    const older = await fixture.gateway({ HOLDFAST_ANCHOR: former });
    const waiting = await fixture.startScript(gate.waitScript(7));
    const question = "echo up; read answer; echo got $answer; exit 3";
    const asking = await fixture.startRun({ argv: ["sh", "-c", question], stdin: "pipe" });
    const stopped = await fixture.startScript(TWO_PROCESSES);
    for (const runId of [waiting, asking, stopped]) {
      await fixture.waitForOutput(runId, "up");
      expect(await protocolOf(fixture, runId)).toBe(PREVIOUS_PROTOCOL);
    }
    await older.kill();

    const newer = await fixture.gateway();
    expect(newer.events.filter(({ type }) => type === "problem")).toEqual([]);
    const { exec, kill, write } = await fixture.client();
    await write({ params: { runId: asking }, body: { text: "yes\n" } });
    await fixture.waitForOutput(asking, "got yes");
    expect((await fixture.waitForEnd(asking)).exit).toMatchObject({ reason: "exit", code: 3 });

    // The older anchor does not support adoption: the command fails, and nothing is recorded.
    const sleeper = findByRunMarker(stopped).find(({ argv }) => argv[1] === "7002")?.pid;
    const adoption = await fixture.holdfast("service", "adopt", String(sleeper));
    expect(adoption, adoption.stderr).toMatchObject({ code: 2, stdout: "" });
    expect(adoption.stderr).toMatch(/nothing was changed: its anchor is older than this version/);
    expect(await fixture.json<unknown[]>("runs", "list", "--all")).toHaveLength(3);
    expect(await kill({ params: { runId: stopped } })).toMatchObject({ outcome: "gone", survivors: [] });

    // The launcher keeps the former version while it has a run, and starts the next one.
    const next = await fixture.startScript("echo up; sleep 1000");
    await fixture.waitForOutput(next, "up");
    expect(await protocolOf(fixture, next)).toBe(PREVIOUS_PROTOCOL);
    expect(await kill({ params: { runId: next } })).toMatchObject({ outcome: "gone" });

    // The older anchor does not support limits: the run is refused.
    const limited = await exec({ body: { argv: ["true"], limits: { pids: 10 } } });
    expect(limited).toMatchObject({ failure: "limit-unavailable", run: { state: "exited" } });

    await gate.release();
    expect(await fixture.waitForEnd(waiting)).toMatchObject({
      exit: { reason: "exit", code: 7 },
      emptiness: "proven",
    });
  });
});

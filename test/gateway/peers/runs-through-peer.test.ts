import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import {
  type ClusterGateway,
  GatewayCluster,
  RunViewer,
  startRun,
} from "../../support/gateway/gateway-cluster.js";
import { errorOf, waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { waitFor } from "../../support/wait-for.js";

const LONG = { timeout: 240_000 };

describe.skipIf(whyNoPostgres !== null)("through the gateway of another state directory", LONG, () => {
  let cluster: GatewayCluster;
  let here: ClusterGateway;
  let there: ClusterGateway;
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
    [here, there] = await Promise.all([cluster.startGateway(), cluster.startGateway()]);
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  test("a run is stopped by its own gateway, with the requester as actor", async () => {
    const runId = await startRun(there, "sleep 1000");
    const answer = await here.client.kill({ params: { runId }, body: { reason: "enough" } });
    expect(answer).toMatchObject({
      outcome: "gone",
      command: { instanceId: there.gateway.instanceId, accepted: true },
    });
    // The answer does not wait for the record of the end.
    expect((await waitForRunEnd(here.client, runId)).exit).toMatchObject({
      reason: "manual-cancel",
      actor: "operator (enough)",
    });
    const { events } = await here.client.events({ query: { run: runId } });
    expect(events.filter(({ type }) => type === "command").map(({ data }) => data["outcome"])).toEqual([
      null,
      "gone",
    ]);
    const again = await here.client.kill({ params: { runId } });
    expect(again).toMatchObject({ outcome: "ended-before", command: null });
  });

  test("a terminal takes input and shows output, in both directions", async () => {
    const runId = await startRun(there, 'stty -echo; while read word; do echo "<$word>"; done', {
      pty: true,
    });
    const viewer = new RunViewer(here, runId);
    await waitFor("attached", () => viewer.said.length > 0, 15_000);
    expect(viewer.said[0]).toMatchObject({ type: "attached", runId, state: "running" });
    viewer.socket.send(Buffer.from("one\n"));
    await waitFor("the answer", () => viewer.text.includes("<one>"), 15_000);
    await here.client.sendKeys({ params: { runId }, body: { keys: ["literal:two", "Enter"] } });
    await waitFor("the answer", () => viewer.text.includes("<two>"), 15_000);
    viewer.socket.send(JSON.stringify({ type: "resize", rows: 30, cols: 90 }));
    await here.client.write({ params: { runId }, body: { text: "three\n" } });
    await waitFor("the answer", () => viewer.text.includes("<three>"), 15_000);
    expect((await here.client.screen({ params: { runId } })).cols).toBe(90);
    viewer.socket.send("no JSON");
    await waitFor("the refusal", () => viewer.said.some(({ type }) => type === "refused"), 15_000);
    viewer.socket.send(JSON.stringify({ type: "stop" }));
    expect(await viewer.closed).toBe(1000);
    expect(viewer.said.at(-1)).toMatchObject({ type: "ended", record: { state: "exited" } });
  });

  test("unread input of a program is limited, and the writer gets an error", async () => {
    const runId = await startRun(there, "sleep 1000", { stdin: "pipe" });
    const viewer = new RunViewer(here, runId);
    await waitFor("attached", () => viewer.said.length > 0, 15_000);
    const piece = Buffer.alloc(512 * 1024, "x");
    for (let sent = 0; sent < 48; sent++) viewer.socket.send(piece);
    await waitFor("told", () => viewer.said.some(({ type }) => type === "refused"), 30_000);
    expect(viewer.said.find(({ type }) => type === "refused")).toMatchObject({
      message: expect.stringContaining("bytes of input already wait for the program"),
    });
    const write = here.client.write({ params: { runId }, body: { text: "more" } });
    expect(await errorOf(write)).toMatchObject({ code: "STDIN_FULL" });
    const waiting = there.gateway.supervisor.run(runId)?.waitingInput ?? 0;
    expect(waiting).toBeLessThan(defaults.inputWaitingBytes + 2 * piece.length);
    // Stopping is no matter of what it reads.
    viewer.socket.send(JSON.stringify({ type: "stop" }));
    expect(await viewer.closed).toBe(1000);
  });

  test("output of any size passes unchanged", async () => {
    const bytes = 6_000_000;
    const runId = await startRun(there, `yes 0123456789abcdef | head -c ${bytes}; sleep 1000`);
    const viewer = new RunViewer(here, runId);
    // Now and then it reads nothing for a while.
    const halting = setInterval(() => {
      viewer.socket.pause();
      setTimeout(() => viewer.socket.resume(), 20);
    }, 60);
    await waitFor("all of it", () => viewer.nextOffset === bytes, 30_000);
    clearInterval(halting);
    const wanted = "0123456789abcdef\n".repeat(bytes / 17 + 1).slice(0, bytes);
    const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
    expect(hash(viewer.text)).toBe(hash(wanted));
    let text = "";
    for (let offset = 0; offset < bytes;) {
      const query = { offset, maxBytes: 1_048_576, raw: "1" as const };
      const page = await here.client.log({ params: { runId }, query });
      text += page.text;
      offset = page.nextOffset;
    }
    expect(hash(text)).toBe(hash(wanted));
    viewer.socket.terminate();
    await here.client.kill({ params: { runId }, body: { graceMs: 0 } });
  });

  test("a caller can wait for an end, and read the output of an ended run", async () => {
    const runId = await startRun(there, "sleep 0.5; echo last; exit 3");
    const { output } = await here.client.poll({ params: { runId }, query: { waitMs: 15_000 } });
    expect(output[0]?.text).toBe("last\n");
    expect((await waitForRunEnd(here.client, runId)).exit).toMatchObject({ code: 3 });
    const { text } = await here.client.log({ params: { runId } });
    expect(text).toBe("last\n");
    expect(await errorOf(here.client.write({ params: { runId }, body: { text: "x" } }))).toMatchObject({
      code: "STDIN_CLOSED",
    });
  });

  test("a removed run is stopped on its host", async () => {
    const runId = await startRun(there, "sleep 1000");
    expect(await here.client.remove({ params: { runId } })).toEqual({ runId, stopping: true });
    expect((await waitForRunEnd(there.client, runId)).exit?.reason).toBe("manual-cancel");
  });

  test("bad input is refused by the run's gateway with the same message", async () => {
    const runId = await startRun(there, "sleep 1000");
    const ask = (body: object) =>
      here.client.sendKeys({ params: { runId }, body: body as { keys: string[] } });
    const told = await errorOf(there.client.sendKeys({ params: { runId }, body: { keys: [] } }));
    expect(await errorOf(ask({ keys: [] }))).toEqual(told);
    expect(await errorOf(ask({ keys: ["C-c"], extra: 1 }))).toMatchObject({ code: "BAD_INPUT" });
    const large = await errorOf(
      here.client.paste({ params: { runId }, body: { text: "x".repeat(5_000_000) } }),
    );
    expect(large.code).toBe("TOO_LARGE");
    expect(await errorOf(here.client.log({ params: { runId: "run_000000000000" } }))).toMatchObject({
      code: "RUN_NOT_FOUND",
    });
    await here.client.kill({ params: { runId } });
  });
});

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { AnchorEvent, AnchorLink } from "../../../src/anchor/host-interface.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { BadInput, SpawnFailed } from "../../../src/errors.js";
import { hostWithFakeLauncher, type FakeLauncherHost, welcomeFrame } from "../../support/anchor/fake-peer.js";
import { startSpec } from "../../support/anchor/start-spec.js";
import { waitFor } from "../../support/wait-for.js";

const EXIT_JSON = JSON.stringify({
  protocol: 1,
  runId: "run_a",
  executed: true,
  reason: "exit",
  actor: "",
  requestId: "",
  leader: { code: 3 },
  spawnError: null,
  residue: [{ pid: 7, startTime: 8, kind: "detached", command: "sleep" }],
  residueCount: 1,
  killMode: "pid",
  emptiness: "proven",
  stdout: { start: 0, end: 10, dropped: 0 },
  stderr: { start: 0, end: 0, dropped: 0 },
  processes: 2,
  usage: { cpuMs: 1, peakKb: 2048 },
  durationMs: 15,
});

function record(link: AnchorLink): AnchorEvent[] {
  const events: AnchorEvent[] = [];
  link.listen((event) => events.push(event));
  return events;
}

async function startedLink(): Promise<FakeLauncherHost & { link: AnchorLink; events: AnchorEvent[] }> {
  const fixture = await hostWithFakeLauncher();
  const link = await fixture.host.start(startSpec("run_a", ["prog"]));
  return { ...fixture, link, events: record(link) };
}

describe("start", () => {
  test("sends the whole specification and returns the answer", async () => {
    const { host, owner } = await hostWithFakeLauncher();
    const spec = startSpec("run_a", ["sh", "-c", "echo é"], {
      env: { A: "1", B: "ü=2" },
      umask: 0o22,
      io: "pty",
      size: { rows: 5, cols: 7 },
      stdin: "pipe",
      stdout: { boundBytes: 1000, policy: "back-pressure" },
    });
    const link = await host.start(spec);
    expect(link.welcome).toMatchObject({
      phase: "gated",
      highestEpoch: 1,
      root: { pid: 101, startTime: 5000, uniqueId: "18446744073709551615" },
      anchor: { pid: 100, startTime: 4999, uniqueId: null },
      boundary: { tier: "subreaper+launcher+unique", tierNote: "no cgroup", cgroup: null, cgroupInode: null },
      stdout: { start: 0, end: 10, acked: 5, dropped: 0, closed: false },
      stderr: { closed: true },
      stdinLimit: 65536,
      firstStop: null,
      leader: null,
    });
    expect(owner().received[0]).toMatchObject({
      name: "start",
      runId: "run_a",
      instanceId: "i",
      incarnation: "inc",
      key: expect.stringMatching(/^[0-9a-f]{64}$/),
      args: ["sh", "-c", "echo é"],
      env: ["A=1", "B=ü=2"],
      umask: 0o22,
      pty: 1,
      stdin: 1,
      rows: 5,
      cols: 7,
      overallMs: 0,
      noOutputMs: 0,
      outBound: 1000,
      outPolicy: 1,
      errPolicy: 0,
    });
  });

  test("gives each of many concurrent first runs its own key, and holds the launcher once", async () => {
    const { host, launcher } = await hostWithFakeLauncher();
    await Promise.all(["a", "b", "c", "d"].map((name) => host.start(startSpec(`run_${name}`, ["x"]))));
    const received = launcher.connections.flatMap((connection) => connection.received);
    const keys = received.flatMap((message) => (message.name === "start" ? [message.key] : []));
    expect(new Set(keys).size).toBe(4);
    expect(received.filter(({ name }) => name === "hold")).toHaveLength(1);
  });

  test("says in a sentence why the command cannot be run", async () => {
    const { host } = await hostWithFakeLauncher((_message, connection) =>
      connection.send(
        encodeMessage("failed", { errno: 2, step: "cwd", message: "No such file or directory" }),
      ),
    );
    const start = host.start(startSpec("run_a", ["x"], { cwd: "/nowhere" }));
    await expect(start).rejects.toBeInstanceOf(SpawnFailed);
    await expect(start).rejects.toMatchObject({
      runId: "run_a",
      errno: 2,
      step: "cwd",
      message: "cannot enter directory /nowhere: no such directory",
    });
  });

  test.each([
    ["the connection ends", null],
    ["the answer is garbage", Buffer.alloc(64, 0xff)],
  ])("fails at step anchor if %s before the welcome", async (_, answer) => {
    const { host } = await hostWithFakeLauncher((_message, { socket }) =>
      answer === null ? socket.destroy() : socket.write(answer),
    );
    const failure = { code: "SPAWN_FAILED", step: "anchor" };
    await expect(host.start(startSpec("run_a", ["x"]))).rejects.toMatchObject(failure);
  });

  test("refuses values that cannot be encoded before anything is sent", async () => {
    const { host, launcher } = await hostWithFakeLauncher();
    for (const [runId, word] of [
      ["../a", "x"],
      ["run_a", "a\0b"],
      ["run_a", "x".repeat(9 << 20)],
    ] as const)
      await expect(host.start(startSpec(runId, [word]))).rejects.toBeInstanceOf(BadInput);
    expect(launcher.connections).toHaveLength(0);
  });

  test("reports the death of an anchor to its listeners", async () => {
    const { host, launcher } = await hostWithFakeLauncher();
    const losses: unknown[] = [];
    host.onAnchorLost((loss) => losses.push(loss));
    await host.start(startSpec("run_a", ["x"]));
    const holder = launcher.connections.find(({ received }) => received[0]?.name === "hold");
    holder?.send(encodeMessage("anchorLost", { runId: "run_a", anchorPid: 100, code: null, signal: 9 }));
    await waitFor(() => losses.length > 0);
    expect(losses).toEqual([{ runId: "run_a", anchorPid: 100, status: { code: null, signal: 9 } }]);
  });
});

describe("a link", () => {
  test("buffers events until it has a listener, in order, even those in the packet of WELCOME", async () => {
    const output = { start: 0, end: 5, dropped: 1, acked: 2, lost: 3, closed: true, withheld: false };
    const { host } = await hostWithFakeLauncher((_message, connection) =>
      connection.send(
        welcomeFrame(),
        encodeMessage("started", {}),
        encodeMessage("output", { stream: 2, ...output }),
      ),
    );
    const link = await host.start(startSpec("run_a", ["x"]));
    expect(record(link)).toEqual([{ type: "started" }, { type: "output", stream: "stderr", ...output }]);
    expect(() => record(link)).toThrow(/one listener/);
  });

  test("turns every message into its event", async () => {
    const { events, owner } = await startedLink();
    owner().send(
      encodeMessage("stdin", { offset: 4, limit: 9, closed: true }),
      encodeMessage("stopping", { reason: "manual-cancel", actor: "cli:x", requestId: "r" }),
      encodeMessage("leader", { code: null, signal: 15 }),
      encodeMessage("survivors", { json: '[{"pid":7,"startTime":8,"kind":"unkillable","command":"dd"}]' }),
      encodeMessage("failed", { errno: 2, step: "exec", message: "No such file or directory" }),
      encodeMessage("refused", { codeName: "not-owner", message: "no", protocol: null, epoch: 9 }),
      encodeMessage("exited", { json: EXIT_JSON }),
    );
    await waitFor(() => events.length === 7);
    expect(events).toMatchObject([
      { type: "stdin", accepted: 4, limit: 9, closed: true },
      { type: "stopping", stop: { reason: "manual-cancel", actor: "cli:x", requestId: "r" } },
      { type: "leader", status: { code: null, signal: 15 } },
      { type: "survivors", survivors: [{ pid: 7, startTime: 8, kind: "unkillable", command: "dd" }] },
      {
        type: "failed",
        failure: {
          errno: 2,
          step: "exec",
          message: expect.stringContaining("cannot run prog: no such command"),
        },
      },
      { type: "refused", code: "not-owner", epoch: 9 },
      {
        type: "exited",
        // An anchor without limits: it counted the processes it reaped.
        exit: {
          leader: { code: 3, signal: null },
          residue: [{ kind: "detached" }],
          usage: { peakKb: 2048, peakTasks: null, source: { cpu: "reaped", memory: "reaped" } },
          limitHit: null,
        },
      },
    ]);
  });

  test("sends every request of a supervisor", async () => {
    const { link, owner } = await startedLink();
    link.go();
    link.write(100, Buffer.alloc(150_000, 1));
    link.closeStdin(150_100);
    link.resize({ rows: 1, cols: 2 });
    link.acknowledge("stderr", 77);
    link.setPolicy({ overallMs: null, noOutputMs: 0.5, kind: "service" });
    link.heartbeat();
    link.stop({ reason: "manual-cancel", actor: "é".repeat(300), requestId: "r\0x", graceMs: 1.5 });
    await waitFor(() => owner().received.some(({ name }) => name === "stop"));
    const requests = owner().received.slice(1);
    const writes = requests.filter((message) => message.name === "write");
    expect(writes.map(({ offset, data }) => [offset, data.length])).toEqual([
      [100, 65536],
      [65636, 65536],
      [131172, 18928],
    ]);
    const unchanged = { ownerLossMs: null, onEscape: null, graceMs: null };
    expect(requests.filter(({ name }) => name !== "write")).toEqual([
      { name: "go" },
      { name: "closeStdin", offset: 150_100 },
      { name: "resize", rows: 1, cols: 2 },
      { name: "ack", stream: 2, offset: 77 },
      { name: "policy", overallMs: 0, noOutputMs: 1, kind: 1, ...unchanged },
      { name: "heartbeat" },
      { name: "stop", reason: "manual-cancel", actor: "é".repeat(127), requestId: "rx", graceMs: 2 },
    ]);
  });

  test("closes and reports it when the peer violates the protocol", async () => {
    const { events, owner } = await startedLink();
    owner().send(encodeMessage("exited", { json: "{}" }), encodeMessage("started", {}));
    await waitFor(() => events.length === 2);
    expect(events).toMatchObject([{ type: "refused", code: "bad-frame" }, { type: "closed" }]);
  });

  test("after it was closed, sending does nothing and `closed` comes once", async () => {
    const { link, events, owner } = await startedLink();
    link.close();
    link.go();
    link.write(0, Buffer.from("x"));
    link.close();
    await waitFor(() => owner().socket.closed && events.length > 0);
    expect(events).toEqual([{ type: "closed" }]);
    expect(owner().received).toHaveLength(1);
  });

  test("reports the end from the exit file if the connection broke before EXITED was read", async () => {
    const { events, owner, runDir } = await startedLink();
    await writeFile(join(runDir, "exit.json"), EXIT_JSON);
    owner().socket.destroy();
    await waitFor(() => events.length === 2);
    expect(events).toMatchObject([{ type: "exited", exit: { leader: { code: 3 } } }, { type: "closed" }]);
  });

  test("reports the end once", async () => {
    const { events, owner, runDir } = await startedLink();
    await writeFile(join(runDir, "exit.json"), EXIT_JSON);
    owner().send(encodeMessage("exited", { json: EXIT_JSON }));
    owner().socket.end();
    await waitFor(() => events.some(({ type }) => type === "closed"));
    expect(events.map(({ type }) => type)).toEqual(["exited", "closed"]);
  });
});

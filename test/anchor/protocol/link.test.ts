import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AnchorEvent, AnchorLink } from "../../../src/anchor/host.js";
import { encodeMessage, type AnchorMessage } from "../../../src/anchor/protocol/message-codec.js";
import { type NativeHost, openNativeHost } from "../../../src/anchor/native-host.js";
import { PROTOCOL } from "../../../src/anchor/protocol/messages.js";
import { AnchorUnusable, BadInput, SpawnFailed, StaleEpoch } from "../../../src/errors.js";
import {
  FakePeer,
  launcherFrame,
  type PeerConnection,
  welcomeFrame,
} from "../../support/anchor/fake-peer.js";
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

let home: string;
let instanceDir: string;
let host: NativeHost;
let onStart: (message: AnchorMessage, visitor: PeerConnection) => void;
let launcher: FakePeer;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "holdfast-link-"));
  instanceDir = join(home, "instances", "i");
  await mkdir(join(instanceDir, "runs", "run_a"), { recursive: true });
  const anchorSource = join(home, "fake");
  await writeFile(anchorSource, "\x7fELF, as far as anybody looks\n");
  await chmod(anchorSource, 0o755);
  onStart = (_message, visitor) => visitor.send(welcomeFrame());
  launcher = await FakePeer.listen(join(instanceDir, "launcher.sock"), (message, visitor) => {
    if (message.name === "hold") visitor.send(launcherFrame);
    else if (message.name === "start") onStart(message, visitor);
  });
  const machine = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };
  host = await openNativeHost({
    home,
    instanceId: "i",
    incarnation: "inc",
    instanceDir,
    machine,
    anchorSource,
  });
});

afterEach(async () => {
  await host[Symbol.asyncDispose]();
  await launcher[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
});

function record(link: AnchorLink): AnchorEvent[] {
  const events: AnchorEvent[] = [];
  link.listen((event) => events.push(event));
  return events;
}

/** The anchor's side of the connection that carried START. */
function owner(): PeerConnection {
  const found = launcher.connections.find(({ received: heard }) => heard[0]?.name === "start");
  if (found === undefined) throw new Error("nothing was started");
  return found;
}

describe("start", () => {
  test("sends everything the anchor needs and returns what it answers", async () => {
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

  test("gives every run its own key", async () => {
    await Promise.all([host.start(startSpec("run_a", ["x"])), host.start(startSpec("run_b", ["x"]))]);
    const keys = launcher.connections
      .flatMap(({ received: heard }) => heard)
      .flatMap((message) => (message.name === "start" ? [message.key] : []));
    expect(new Set(keys).size).toBe(2);
  });

  test("holds the launcher once for many concurrent first starts", async () => {
    await Promise.all(["a", "b", "c", "d"].map((name) => host.start(startSpec(`run_${name}`, ["x"]))));
    expect(launcher.connections.filter(({ received: heard }) => heard[0]?.name === "hold")).toHaveLength(1);
  });

  test("does not contact a launcher before the first run", async () => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(launcher.connections).toHaveLength(0);
  });

  test("says in a sentence why the command cannot be run", async () => {
    onStart = (_message, visitor) =>
      visitor.send(encodeMessage("failed", { errno: 2, step: "cwd", message: "No such file or directory" }));
    const failed = await host
      .start(startSpec("run_a", ["x"], { cwd: "/nowhere" }))
      .catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(SpawnFailed);
    expect(failed).toMatchObject({
      runId: "run_a",
      errno: 2,
      step: "cwd",
      message: "cannot enter directory /nowhere: no such directory",
    });
  });

  test("fails at step anchor when the connection ends before the welcome", async () => {
    onStart = (_message, visitor) => visitor.socket.destroy();
    await expect(host.start(startSpec("run_a", ["x"]))).rejects.toMatchObject({
      code: "SPAWN_FAILED",
      step: "anchor",
    });
  });

  test("fails at step anchor when the answer is garbage", async () => {
    onStart = (_message, visitor) => visitor.socket.write(Buffer.alloc(64, 0xff));
    await expect(host.start(startSpec("run_a", ["x"]))).rejects.toMatchObject({
      code: "SPAWN_FAILED",
      step: "anchor",
    });
  });

  test("refuses values that cannot be encoded before anything is sent", async () => {
    await expect(host.start(startSpec("../a", ["x"]))).rejects.toBeInstanceOf(BadInput);
    await expect(host.start(startSpec("run_a", ["a\0b"]))).rejects.toBeInstanceOf(BadInput);
    await expect(host.start(startSpec("run_a", ["x".repeat(9 << 20)]))).rejects.toBeInstanceOf(BadInput);
    expect(launcher.connections).toHaveLength(0);
  });

  test("reports the death of an anchor to its listeners", async () => {
    const losses: unknown[] = [];
    host.onAnchorLost((loss) => losses.push(loss));
    await host.start(startSpec("run_a", ["x"]));
    const holder = launcher.connections.find(({ received: heard }) => heard[0]?.name === "hold");
    holder?.send(encodeMessage("anchorLost", { runId: "run_a", anchorPid: 100, code: null, signal: 9 }));
    await waitFor(() => losses.length > 0);
    expect(losses).toEqual([{ runId: "run_a", anchorPid: 100, status: { code: null, signal: 9 } }]);
  });
});

describe("a link", () => {
  test("buffers events until it has a listener, in order, even those in the packet of WELCOME", async () => {
    onStart = (_message, visitor) => {
      visitor.send(
        welcomeFrame(),
        encodeMessage("started", {}),
        encodeMessage("output", {
          stream: 2,
          start: 0,
          end: 5,
          dropped: 1,
          lost: 3,
          closed: true,
          withheld: false,
        }),
      );
      visitor.socket.end();
    };
    const link = await host.start(startSpec("run_a", ["x"]));
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(record(link)).toEqual([
      { type: "started" },
      {
        type: "output",
        stream: "stderr",
        start: 0,
        end: 5,
        dropped: 1,
        lost: 3,
        closed: true,
        withheld: false,
      },
      { type: "closed" },
    ]);
  });

  test("turns every message into its event", async () => {
    const link = await host.start(startSpec("run_a", ["prog"]));
    const events = record(link);
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
    const link = await host.start(startSpec("run_a", ["x"]));
    link.go();
    link.write(100, Buffer.alloc(150_000, 1));
    link.closeStdin(150_100);
    link.resize({ rows: 1, cols: 2 });
    link.acknowledge("stderr", 77);
    link.setPolicy({ overallMs: null, noOutputMs: 0.5, kind: "service" });
    link.heartbeat();
    link.stop({ reason: "manual-cancel", actor: "é".repeat(300), requestId: "r\0x", graceMs: 1.5 });
    await waitFor(() => owner().received.some(({ name }) => name === "stop"));
    const said = owner().received.slice(1);
    const writes = said.filter((message) => message.name === "write");
    expect(writes.map(({ offset, data }) => [offset, data.length])).toEqual([
      [100, 65536],
      [65636, 65536],
      [131172, 18928],
    ]);
    expect(said.filter(({ name }) => name !== "write")).toEqual([
      { name: "go" },
      { name: "closeStdin", offset: 150_100 },
      { name: "resize", rows: 1, cols: 2 },
      { name: "ack", stream: 2, offset: 77 },
      {
        name: "policy",
        overallMs: 0,
        noOutputMs: 1,
        ownerLossMs: null,
        kind: 1,
        onEscape: null,
        graceMs: null,
      },
      { name: "heartbeat" },
      { name: "stop", reason: "manual-cancel", actor: "é".repeat(127), requestId: "rx", graceMs: 2 },
    ]);
  });

  test("closes and reports it when the peer violates the protocol", async () => {
    const link = await host.start(startSpec("run_a", ["x"]));
    const events = record(link);
    owner().send(encodeMessage("exited", { json: "{}" }), encodeMessage("started", {}));
    await waitFor(() => events.length === 2);
    expect(events).toMatchObject([{ type: "refused", code: "bad-frame" }, { type: "closed" }]);
  });

  test("after it was closed, sending does nothing and `closed` comes once", async () => {
    const link = await host.start(startSpec("run_a", ["x"]));
    const events = record(link);
    link.close();
    link.go();
    link.write(0, Buffer.from("x"));
    link.close();
    await waitFor(() => events.length > 0);
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(events).toEqual([{ type: "closed" }]);
    expect(owner().received).toHaveLength(1);
  });

  test("reports the end from the exit file if the connection broke before EXITED was read", async () => {
    const link = await host.start(startSpec("run_a", ["x"]));
    const events = record(link);
    await writeFile(join(instanceDir, "runs", "run_a", "exit.json"), EXIT_JSON);
    owner().socket.destroy();
    await waitFor(() => events.length === 2);
    expect(events).toMatchObject([{ type: "exited", exit: { leader: { code: 3 } } }, { type: "closed" }]);
  });

  test("reports the end once", async () => {
    const link = await host.start(startSpec("run_a", ["x"]));
    const events = record(link);
    await writeFile(join(instanceDir, "runs", "run_a", "exit.json"), EXIT_JSON);
    owner().send(encodeMessage("exited", { json: EXIT_JSON }));
    owner().socket.end();
    await waitFor(() => events.some(({ type }) => type === "closed"));
    expect(events.map(({ type }) => type)).toEqual(["exited", "closed"]);
  });

  test("has one listener", async () => {
    const link = await host.start(startSpec("run_a", ["x"]));
    record(link);
    expect(() => record(link)).toThrow(/one listener/);
  });
});

describe("attach", () => {
  const sock = (): string => join(instanceDir, "runs", "run_a", "sock");

  async function anchor(
    answer: (message: AnchorMessage, visitor: PeerConnection) => void,
  ): Promise<FakePeer> {
    await writeFile(join(instanceDir, "runs", "run_a", "key"), "k3y\n");
    return FakePeer.listen(sock(), answer);
  }

  test("sends the key of the run directory and the requested epoch", async () => {
    await using peer = await anchor((_message, visitor) =>
      visitor.send(
        welcomeFrame({ epoch: 4, phase: 2, code: 0, reason: "shutdown", actor: "a", requestId: "q" }),
      ),
    );
    const link = await host.attach({ instanceId: "i", runId: "run_a" }, 4);
    expect(link?.welcome).toMatchObject({
      phase: "running",
      highestEpoch: 4,
      leader: { code: 0, signal: null },
      firstStop: { reason: "shutdown", actor: "a", requestId: "q" },
    });
    expect(peer.connections[0]?.received[0]).toEqual({
      name: "hello",
      protocol: PROTOCOL,
      runId: "run_a",
      instanceId: "i",
      incarnation: "inc",
      epoch: 4,
      key: "k3y",
    });
  });

  test("is null without a directory, key, socket or listener, and if the connection ends without an answer", async () => {
    expect(await host.attach({ instanceId: "i", runId: "run_z" }, 1)).toBeNull();
    expect(await host.attach({ instanceId: "i", runId: "run_a" }, 1)).toBeNull();
    await writeFile(join(instanceDir, "runs", "run_a", "key"), "k");
    expect(await host.attach({ instanceId: "i", runId: "run_a" }, 1)).toBeNull();
    await writeFile(sock(), "");
    expect(await host.attach({ instanceId: "i", runId: "run_a" }, 1)).toBeNull();
    await rm(sock());
    await using _peer = await anchor((_message, visitor) => visitor.socket.destroy());
    expect(await host.attach({ instanceId: "i", runId: "run_a" }, 1)).toBeNull();
  });

  test("rejects with StaleEpoch if a newer owner has attached", async () => {
    await using _peer = await anchor((_message, visitor) =>
      visitor.send(
        encodeMessage("refused", { codeName: "stale-epoch", message: "newer", protocol: null, epoch: 12 }),
      ),
    );
    const stale = await host.attach({ instanceId: "i", runId: "run_a" }, 3).catch((error: unknown) => error);
    expect(stale).toBeInstanceOf(StaleEpoch);
    expect(stale).toMatchObject({ runId: "run_a", highestEpoch: 12 });
  });

  test("rejects with AnchorUnusable when refused for another reason", async () => {
    await using _peer = await anchor((_message, visitor) =>
      visitor.send(
        encodeMessage("refused", { codeName: "bad-key", message: "no", protocol: null, epoch: null }),
      ),
    );
    await expect(host.attach({ instanceId: "i", runId: "run_a" }, 3)).rejects.toBeInstanceOf(AnchorUnusable);
  });

  test("starts no launcher", async () => {
    await host.attach({ instanceId: "i", runId: "run_a" }, 1);
    expect(launcher.connections).toHaveLength(0);
  });
});

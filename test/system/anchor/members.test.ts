import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { constants } from "node:os";
import { describe, expect, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { inspectProcesses } from "../../../src/anchor/inspect/processes.js";
import { decodeMember } from "../../../src/anchor/protocol/events.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { MAX_LISTED_PROCESSES } from "../../../src/anchor/protocol/messages.js";
import { signalFrame } from "../../../src/anchor/protocol/requests.js";
import type { ProcessIdentity } from "../../../src/model/process.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import type { RawLink } from "../../support/anchor/raw-link.js";
import { plantBystander } from "../../support/bystander.js";
import { waitFor } from "../../support/wait-for.js";

const end = encodeMessage("closeStdin", { offset: 0 });

async function members(link: RawLink, requestId = "q") {
  link.send(encodeMessage("members", { requestId }));
  const answer = await link.receive("membersAre");
  expect(answer.requestId).toBe(requestId);
  return answer.processes.map(decodeMember);
}

async function wrote(launcher: RawLauncher, text: string): Promise<void> {
  await waitFor(async () => (await launcher.output("run_a", "stdout")).includes(text));
}

/** One of the two readings may be a clock tick later, and an anchor without handles knows no unique id. */
const still = (seen: ReturnType<typeof decodeMember>) => ({
  ...seen,
  identity: { ...seen.identity, uniqueId: null },
  cpuMs: 0,
  rssKb: 0,
  state: "",
});

describe.each([
  ["with cgroups", anchorEnvironment()],
  ["without cgroups", { ...anchorEnvironment(), HOLDFAST_ANCHOR_WEAKEN: "cgroup" }],
  ["without handles", { ...anchorEnvironment(), HOLDFAST_ANCHOR_WEAKEN: "cgroup,pidfd" }],
])("%s", (_, env) => {
  test("an anchor lists the processes of its run like an inspection from outside: with daemons, without zombies and other processes", async () => {
    const launcher = await RawLauncher.start(env);
    const stranger = plantBystander("sleep", ["3019"]);
    const daemon = "(env -i setsid sleep 3019 >&- 2>&- &)";
    const owner = await launcher.run("run_a", `${daemon}; sleep 3019 & true & echo up; read line; kill $!`);
    await wrote(launcher, "up");
    const names = async () => (await members(owner)).map(({ command }) => command).toSorted();
    await waitFor(async () => (await names()).join(" ") === "sh sleep sleep");
    const told = await members(owner, "another");
    expect(told.map(({ identity }) => identity.pid)).not.toContain(stranger.pid);
    const [evidence] = await inspectProcesses(findAnchorBinary(), [
      told.find(({ command }) => command === "sh")?.parentPid ?? 0,
    ]);
    const seen = evidence?.descendants.filter(({ state }) => state !== "Z").map(still) ?? [];
    expect(new Set(told.map(still))).toEqual(new Set(seen));
    owner.send(end);
    await owner.receive("exited");
  });
});

test("a connection with the key may ask in every phase; a request without an id is refused", async () => {
  const launcher = await RawLauncher.start();
  const owner = await launcher.run("run_a", "trap '' TERM; echo up; read line");
  await wrote(launcher, "up");
  const observer = await launcher.attach("run_a", 0);
  expect(await members(observer)).toContainEqual(expect.objectContaining({ command: "sh" }));
  observer.send(encodeMessage("signal", { signal: 15, members: [] }));
  expect(await observer.receive("refused")).toMatchObject({ codeName: "not-owner" });
  observer.send(Buffer.from([1, 0, 0, 0, 16]));
  expect(await observer.receive("refused")).toMatchObject({ codeName: "bad-frame" });
  owner.send(encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "", graceMs: 300 }));
  await owner.receive("stopping");
  expect(await members(observer)).not.toEqual([]);
  await owner.receive("exited");
});

test("an answer contains at most the maximal number of processes", async () => {
  const launcher = await RawLauncher.start();
  const many = MAX_LISTED_PROCESSES + 20;
  const owner = await launcher.run(
    "run_a",
    `for i in $(seq ${many}); do sleep 3019 & done; echo up; read line`,
  );
  await wrote(launcher, "up");
  const told = await members(owner);
  expect(new Set(told.map(({ identity }) => identity.pid)).size).toBe(MAX_LISTED_PROCESSES);
  owner.send(encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "", graceMs: 0 }));
  await owner.receive("exited");
});

const TWO = "sleep 3018 & echo $!; sleep 3018 & echo $!; echo $$; read line";

async function identityOf(pid: number, later = 0): Promise<ProcessIdentity> {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1");
  const startTime = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]) + later;
  return { pid, startTime, uniqueId: null };
}

async function printed(launcher: RawLauncher, count: number): Promise<number[]> {
  const lines = async () => (await launcher.output("run_a", "stdout")).split("\n").slice(0, -1);
  await waitFor(async () => (await lines()).length >= count);
  return (await lines()).map(Number);
}

/** Its shell does not reap it: it stays a zombie. */
const inState = (pid: number, state: string) =>
  waitFor(async () => (await readFile(`/proc/${pid}/stat`, "latin1")).includes(`) ${state} `));

describe.each([
  ["with cgroups", anchorEnvironment()],
  ["without cgroups", { ...anchorEnvironment(), HOLDFAST_ANCHOR_WEAKEN: "cgroup" }],
])("%s", (_, env) => {
  test("listed members are signalled; the leader, other processes and unlisted members are not", async () => {
    const launcher = await RawLauncher.start(env);
    const stranger = plantBystander("sleep", ["3018"]);
    const owner = await launcher.run("run_a", TWO);
    const [one = 0, two = 0, first = 0] = await printed(launcher, 3);
    const harmless = [
      await identityOf(first),
      await identityOf(stranger.pid ?? 0),
      await identityOf(two, 1),
      { pid: 1, startTime: 0, uniqueId: null },
    ];
    owner.send(signalFrame(harmless, "SIGKILL"));
    expect(await owner.receive("signalled")).toEqual({ name: "signalled", count: 0 });
    owner.send(signalFrame([...harmless, await identityOf(one)], "SIGTERM"));
    expect(await owner.receive("signalled")).toEqual({ name: "signalled", count: 1 });
    await inState(one, "Z");
    owner.send(signalFrame([await identityOf(two)], "SIGSTOP"));
    await owner.receive("signalled");
    await inState(two, "T");
    expect(existsSync(`/proc/${first}`)).toBe(true);
    owner.send(encodeMessage("closeStdin", { offset: 0 }));
    const exit = JSON.parse((await owner.receive("exited")).json) as Record<string, unknown>;
    expect(exit).toMatchObject({ reason: "exit", emptiness: "proven" });
    expect(existsSync(`/proc/${two}`)).toBe(false);
  });
});

test("without handles only the anchor's own children are signalled, because other identities cannot be proven", async () => {
  const launcher = await RawLauncher.start({
    ...anchorEnvironment(),
    HOLDFAST_ANCHOR_WEAKEN: "cgroup,pidfd",
  });
  const owner = await launcher.run("run_a", "sleep 3018 & echo $!; (sleep 3018 >&- & echo $!); read line");
  const [childOfShell = 0, orphan = 0] = await printed(launcher, 2);
  owner.send(signalFrame([await identityOf(childOfShell), await identityOf(orphan)], "SIGKILL"));
  expect(await owner.receive("signalled")).toEqual({ name: "signalled", count: 1 });
  await waitFor(() => Promise.resolve(!existsSync(`/proc/${orphan}`)));
  expect(existsSync(`/proc/${childOfShell}`)).toBe(true);
  owner.send(encodeMessage("closeStdin", { offset: 0 }));
  await owner.receive("exited");
});

test("other signals, malformed identities and a run that is being stopped are refused, and so is an observer", async () => {
  const launcher = await RawLauncher.start();
  const owner = await launcher.run("run_a", `trap '' TERM; ${TWO}`);
  const [one = 0] = await printed(launcher, 3);
  const named = signalFrame([await identityOf(one)], "SIGKILL");
  const bad = [
    encodeMessage("signal", { signal: constants.signals.SIGUSR1, members: [] }),
    encodeMessage("signal", { signal: constants.signals.SIGKILL, members: [Buffer.alloc(23)] }),
    encodeMessage("signal", {
      signal: constants.signals.SIGKILL,
      members: Array.from({ length: 513 }, () => Buffer.alloc(24)),
    }),
  ];
  for (const frame of bad) {
    owner.send(frame);
    expect(await owner.receive("refused")).toMatchObject({ codeName: "signal-bad" });
  }
  const observer = await launcher.attach("run_a", 0);
  observer.send(named);
  expect(await observer.receive("refused")).toMatchObject({ codeName: "not-owner" });
  owner.send(encodeMessage("stop", { reason: "shutdown", actor: "test", requestId: "", graceMs: 500 }));
  owner.send(named);
  expect(await owner.receive("refused")).toMatchObject({ codeName: "signal-phase" });
  await owner.receive("exited");
});

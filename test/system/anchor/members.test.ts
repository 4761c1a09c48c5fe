import { describe, expect, test } from "vitest";
import { anchorEnvironment, findAnchorBinary } from "../../../src/anchor/binary.js";
import { inspectProcesses } from "../../../src/anchor/inspect/processes.js";
import { decodeMember } from "../../../src/anchor/protocol/events.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { MAX_LISTED_PROCESSES } from "../../../src/anchor/protocol/messages.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import type { RawLink } from "../../support/anchor/raw-link.js";
import { plantBystander } from "../../support/live-processes.js";
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

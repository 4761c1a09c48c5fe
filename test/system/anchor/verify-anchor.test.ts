import { existsSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { expect, onTestFinished, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { listOpenRunDirectories } from "../../../src/anchor/inspect/open-run-directories.js";
import { continueAnchor, reap } from "../../../src/anchor/inspect/reap.js";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { encodeMessage, type MessageFields } from "../../../src/anchor/protocol/message-codec.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { processState, silenceAnchor } from "../../support/supervisor/silent-anchor.js";
import { waitFor } from "../../support/wait-for.js";

const WEAKEN = "inode,cgroup";

/** This kernel's unique ids are neither given to nor read by the anchor: pid and start time identify a process. */
function withoutUniqueIds(): NodeJS.ProcessEnv {
  const before = process.env["HOLDFAST_ANCHOR_WEAKEN"];
  process.env["HOLDFAST_ANCHOR_WEAKEN"] = WEAKEN;
  onTestFinished(() => {
    if (before === undefined) delete process.env["HOLDFAST_ANCHOR_WEAKEN"];
    else process.env["HOLDFAST_ANCHOR_WEAKEN"] = before;
  });
  return anchorEnvironment();
}

type Welcome = MessageFields<"welcome">;

/** What is recorded of the anchor of `runId`, if the process of `welcome` has its pid and start time. */
function recorded({ anchorPid, anchorStart }: Welcome, runId: string) {
  const identity = { pid: anchorPid, startTime: anchorStart, uniqueId: null };
  return { identity, path: findAnchorBinary(), runId };
}

/** The answer to a stop of `runId` whose recorded anchor this process seems to be. */
function stop(welcome: Welcome, runId: string) {
  const anchor = recorded(welcome, runId);
  return reap(findAnchorBinary(), { root: null, cgroup: null, leaseId: null, graceMs: 0, anchor });
}

function isAlive(pid: number): boolean {
  return !["Z", "X", null].includes(processState(pid));
}

test("without unique ids, the anchor of another run with the recorded pid and start time is left alone", async () => {
  const launcher = await RawLauncher.start(withoutUniqueIds());
  const owner = await launcher.connect();
  owner.send(launcher.startFrame("run_other", "sleep 3021 & echo up; wait"));
  const welcome = await owner.receive("welcome");
  owner.send(encodeMessage("go", {}));
  await owner.receive("started");
  await using silent = await silenceAnchor(welcome.anchorPid, "SIGSTOP");

  expect(await listOpenRunDirectories(welcome.anchorPid)).toEqual(["run_other"]);
  expect(await stop(welcome, "run_stopped")).toMatchObject({ verified: false, killed: 0, anchor: null });
  expect(await stop(welcome, "run_oth")).toMatchObject({ verified: false });
  expect(await continueAnchor(findAnchorBinary(), recorded(welcome, "run_stopped"))).toContain(
    "directory of the run",
  );
  expect(processState(welcome.anchorPid)).toBe("T");
  expect(isAlive(welcome.rootPid)).toBe(true);

  expect(await continueAnchor(findAnchorBinary(), recorded(welcome, "run_other"))).toBeNull();
  await silent.release();
  expect(await stop(welcome, "run_other")).toMatchObject({ verified: true, anchor: "killed" });
  expect(isAlive(welcome.rootPid)).toBe(false);
});

test("without unique ids, a silent anchor is ended although its directory was removed", async () => {
  const launcher = await RawLauncher.start(withoutUniqueIds());
  const owner = await launcher.connect();
  owner.send(launcher.startFrame("run_a", "sleep 3021"));
  const welcome = await owner.receive("welcome");
  owner.send(encodeMessage("go", {}));
  await owner.receive("started");
  await using _silent = await silenceAnchor(welcome.anchorPid, "SIGSTOP");
  await rm(launcher.runDirectory("run_a"), { recursive: true });
  expect(await stop(welcome, "run_a")).toMatchObject({
    verified: true,
    emptiness: "proven",
    anchor: "killed",
  });
});

test("without unique ids, a silent warm anchor that has not read START is ended with its run", async () => {
  const launcher = await RawLauncher.start(withoutUniqueIds());
  const owner = await launcher.connect();
  const key = randomBytes(32).toString("hex");
  owner.send(
    encodeMessage("warm", { runId: "run_a", protocol: 2, instanceId: "in_raw", incarnation: "one", key }),
  );
  const welcome = await owner.receive("welcome");
  await using _silent = await silenceAnchor(welcome.anchorPid, "SIGSTOP");
  expect(existsSync(launcher.runDirectory(".run_a"))).toBe(true);
  expect(await listOpenRunDirectories(welcome.anchorPid)).toEqual(["run_a"]);
  expect(await stop(welcome, "run_b")).toMatchObject({ verified: false });
  expect(await stop(welcome, "run_a")).toMatchObject({ verified: true, anchor: "killed" });
  await waitFor(() => !isAlive(welcome.rootPid));
});

import { expect, test } from "vitest";
import type { ProcessIdentity } from "../../../src/model/process.js";
import { otherRunsOfAnchor } from "../../../src/supervisor/end/runs-of-anchor.js";

const NO_FILES = { exit: null, leader: null, firstStop: null, swept: null };
const ROOT = { pid: 300, startTime: 8, uniqueId: null };

/** The ids of the other runs of the anchor of `run_a`, for the anchors that the run directories name. */
async function others(
  anchors: Readonly<Record<string, ProcessIdentity>>,
  open: readonly string[] = [],
): Promise<readonly string[]> {
  const { run_a: identity } = anchors;
  if (identity === undefined) throw new Error("no run_a");
  const host = {
    listRunIds: async () => Object.keys(anchors),
    readRunFiles: async () => NO_FILES,
    readIdentities: async ({ runId }: { readonly runId: string }) => ({
      anchor: anchors[runId] ?? identity,
      root: ROOT,
      cgroup: null,
    }),
    listOpenRunDirectories: async () => open,
  };
  const known = { identity, path: "/anchor", runId: "run_a" };
  const found = await otherRunsOfAnchor(host, { instanceId: "in_a", runId: "run_a" }, known);
  return found.map(({ runId }) => runId);
}

const process = (uniqueId: string | null): ProcessIdentity => ({ pid: 200, startTime: 7, uniqueId });

test("with unique ids, another process with the same pid and start time is another anchor", async () => {
  expect(await others({ run_a: process("1"), run_b: process("1"), run_c: process("2") })).toEqual(["run_b"]);
});

test("without unique ids, the anchor serves only the runs whose directories it has open", async () => {
  const anchors = { run_a: process(null), run_b: process(null), run_c: process(null) };
  expect(await others(anchors, ["run_a", "run_b"])).toEqual(["run_b"]);
});

test("if the open directories of the anchor cannot be read, every run with its pid and start time may be its own", async () => {
  const anchors = { run_a: process(null), run_b: process(null) };
  expect(await others(anchors)).toEqual(["run_b"]);
  expect(await others(anchors, ["run_c"])).toEqual(["run_b"]);
});

test("a run with a unique id and one without may have the same anchor", async () => {
  expect(await others({ run_a: process("1"), run_b: process(null) })).toEqual(["run_b"]);
});

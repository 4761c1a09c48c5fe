import { expect, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";

/** Fields that change while a run is alive. */
const CHANGING = ["leaseExpiresAt", "updatedAt", "lastOutputAt", "processes"];

function withoutChanges(text: string): Record<string, unknown>[] {
  return (JSON.parse(text) as Record<string, unknown>[]).map((record) =>
    Object.fromEntries(Object.entries(record).filter(([name]) => !CHANGING.includes(name))),
  );
}

test("ps and runs list show the same from the gateway and from the store", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  const script = ["sh", "-c", "sleep 1000 & sleep 1000"];
  const first = await gatewayFixture.startRun({ argv: script, labels: { job: "nightly" } });
  const ended = await gatewayFixture.startScript("exit 3");
  await gatewayFixture.holdfast("wait", ended);
  // A gateway cannot select by label or state, so these commands read the store.
  const pairs = [
    [
      ["ps", "--json"],
      ["ps", "--json", "--label", "job=nightly"],
    ],
    [
      ["runs", "list", "--json"],
      ["runs", "list", "--json", "--state", "running"],
    ],
  ] as const;
  for (const [ofGateway, ofStore] of pairs) {
    const [shown, stored] = await Promise.all([
      gatewayFixture.holdfast(...ofGateway),
      gatewayFixture.holdfast(...ofStore),
    ]);
    expect([shown.code, shown.stderr], ofGateway.join(" ")).toEqual([0, ""]);
    expect(withoutChanges(shown.stdout)).toEqual(withoutChanges(stored.stdout));
    expect(withoutChanges(shown.stdout).map(({ runId }) => runId)).toEqual([first]);
  }
  const all = await gatewayFixture.holdfast("runs", "-a", "--json");
  expect(withoutChanges(all.stdout).map(({ runId }) => runId)).toEqual([ended, first]);
  const processes = await gatewayFixture.holdfast("ps");
  expect(processes.stdout.match(/└─ sleep|├─ sleep/g)).toHaveLength(2);
});

test("while the gateway is stopped, ps and runs list show what the store has, and say so", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  const runId = await gatewayFixture.startScript("sleep 1000");
  const gateway = await reachGateway(gatewayFixture.home);
  const pid = gateway?.status.pid ?? 0;
  process.kill(pid, "SIGSTOP");
  try {
    for (const line of [["ps"], ["runs", "list"]]) {
      const { code, stdout, stderr } = await gatewayFixture.holdfast(...line);
      expect(code).toBe(0);
      expect(stdout).toContain(runId);
      expect(stderr).toBe("holdfast: the gateway did not answer within 2 s; showing what the store has\n");
    }
  } finally {
    process.kill(pid, "SIGCONT");
  }
});

test("an option that only the parser knows, and a wrong one, are parsed", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  const wrong = await gatewayFixture.holdfast("ps", "--jsom");
  expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
  expect(wrong.stderr).toContain("unknown option '--jsom'");
  const help = await gatewayFixture.holdfast("ps", "--help");
  expect(help.stdout).toContain("Usage: holdfast ps");
  const superfluous = await gatewayFixture.holdfast("gateway", "status", "x");
  expect(superfluous.code).toBe(2);
});

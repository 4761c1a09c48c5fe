import { describe, expect, test } from "vitest";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import type { TestHost } from "./test-host.js";
import { whyNoHosts } from "./test-network.js";
import { MultiHost } from "./multi-host.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

describe.skipIf((whyNoPostgres ?? whyNoHosts) !== null)("a host without a route to its database", () => {
  test("answers for its own runs within a second", { timeout: 120_000 }, async () => {
    await using multiHost = await MultiHost.open(["ann"]);
    const [ann] = multiHost.hosts as [TestHost];
    await ann.gateway();
    const client = await ann.client();
    const runId = await ann.script("echo up; exec sleep 300");
    const params = { runId };
    await waitFor("it has printed", async () => (await client.log({ params })).text === "up\n");
    await ann.unplug();
    const timed = async <Answer>(what: string, ask: () => Promise<Answer>): Promise<Answer> => {
      const began = performance.now();
      const answer = await ask();
      expect(performance.now() - began, what).toBeLessThan(scaled(1_000));
      return answer;
    };
    expect((await timed("log", () => client.log({ params }))).text).toBe("up\n");
    expect((await timed("status", () => client.status())).storeAway).not.toBeNull();
    const { runs, storeAway } = await timed("list", () => client.listRuns());
    expect(storeAway).not.toBeNull();
    expect(runs).toMatchObject([{ runId }]);
    expect(await timed("record", () => client.getRun({ params }))).toMatchObject({ runId });
    expect(await timed("kill", () => client.kill({ params }))).toMatchObject({ outcome: "gone" });
    await ann.plug();
    expect(await multiHost.waitForEnd(runId, 60_000)).toMatchObject({ exit: { reason: "manual-cancel" } });
  });
});

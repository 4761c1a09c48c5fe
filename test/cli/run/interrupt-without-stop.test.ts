import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { waitFor } from "../../support/wait-for.js";

describe("who interrupts", LONG_TIMEOUT, () => {
  test("a command that is yet to be allowed leaves without it, and takes the question along", async () => {
    await using fixture = await ForegroundFixture.started();
    const { token } = await fixture.json<{ token: string }>("sessions", "create", "--key", "k", "--ask", "*");
    const file = join(fixture.home, "touched");
    const { child, finished } = fixture.startWith({ HOLDFAST_TOKEN: token }, "run", "--", "touch", file);
    await waitForText(child.stderr, "waiting to be allowed");
    const client = await fixture.client();
    expect((await client.listApprovals()).approvals).toHaveLength(1);
    child.kill("SIGINT");
    expect((await finished).code).toBe(130);
    await waitFor(
      "nobody is asked any more",
      async () => (await client.listApprovals()).approvals.length === 0,
    );
    expect(existsSync(file)).toBe(false);
  });

  test("a run of which a service was made leaves it alone, whichever the signal", async () => {
    await using fixture = await ForegroundFixture.started();
    const { child, finished, runId } = await fixture.startForeground(
      "--",
      "sh",
      "-c",
      "echo up; exec sleep 7402",
    );
    const heard = waitForText(child.stderr, "is a service now");
    expect(await fixture.holdfast("service", "adopt", runId)).toMatchObject({ code: 0 });
    await heard;
    child.kill("SIGHUP");
    const { code, stderr } = await finished;
    expect({ code, stderr }).toEqual({
      code: 129,
      stderr: expect.stringContaining(`run ${runId} is a service now, and goes on`) as string,
    });
    expect(await fixture.membersOf(runId)).toHaveLength(1);
    expect(await fixture.record(runId)).toMatchObject({ state: "running", kind: "service" });
    expect((await fixture.holdfast("service", "stop", runId, "--grace", "0")).code).toBe(0);
  });
});

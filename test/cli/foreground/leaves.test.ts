import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { until } from "../../io/until.js";
import { sees } from "../stage.js";
import { House, PATIENT } from "./called.js";

describe("who interrupts", PATIENT, () => {
  test("a command that is yet to be allowed leaves without it, and takes the question along", async () => {
    await using house = await House.started();
    const { token } = await house.json<{ token: string }>("sessions", "create", "--key", "k", "--ask", "*");
    const file = join(house.home, "touched");
    const { child, finished } = house.startWith({ HOLDFAST_TOKEN: token }, "run", "--", "touch", file);
    await sees(child.stderr, "waiting to be allowed");
    const client = await house.client();
    expect((await client.listApprovals()).approvals).toHaveLength(1);
    child.kill("SIGINT");
    expect((await finished).code).toBe(130);
    await until(
      "nobody is asked any more",
      async () => (await client.listApprovals()).approvals.length === 0,
    );
    expect(existsSync(file)).toBe(false);
  });

  test("a run of which a service was made leaves it alone, whichever the signal", async () => {
    await using house = await House.started();
    const { child, finished, runId } = await house.call("--", "sh", "-c", "echo up; exec sleep 7402");
    const heard = sees(child.stderr, "is a service now");
    expect(await house.holdfast("service", "adopt", runId)).toMatchObject({ code: 0 });
    await heard;
    child.kill("SIGHUP");
    const { code, stderr } = await finished;
    expect({ code, stderr }).toEqual({
      code: 129,
      stderr: expect.stringContaining(`run ${runId} is a service now, and goes on`) as string,
    });
    expect(await house.membersOf(runId)).toHaveLength(1);
    expect(await house.record(runId)).toMatchObject({ state: "running", kind: "service" });
    expect((await house.holdfast("service", "stop", runId, "--grace", "0")).code).toBe(0);
  });
});

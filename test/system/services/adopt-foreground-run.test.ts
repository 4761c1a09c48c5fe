import { existsSync as exists } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { waitFor } from "../../support/wait-for.js";

test(
  "a foreground run that was adopted outlives its caller and its gateways, and never waits for a reader",
  LONG_TIMEOUT,
  async () => {
    await using fixture = await ForegroundFixture.started();
    const room = 64 * 1024;
    const more = join(fixture.home, "more");
    const wrote = (times: number): string => `${more}-${times}`;
    // It writes several times the buffer for a slow reader, each time after a file appears.
    const script = `echo up; for time in 1 2; do until [ -e ${more}$time ]; do sleep 0.05; done;
    head -c ${4 * room} /dev/zero; : > ${more}-$time; done; exec sleep 7401`;
    const { child, finished, runId } = await fixture.startForeground(script, "--buffer", `${room}`);
    expect(await fixture.holdfast("service", "adopt", runId)).toMatchObject({ code: 0 });
    child.kill("SIGKILL");
    await finished;
    await writeFile(`${more}1`, "");
    await waitFor(
      "it has written",
      async () => (await fixture.membersOf(runId)).length > 0 && exists(wrote(1)),
      60_000,
    );

    await fixture.killGateway();
    await fixture.startGateway();
    await writeFile(`${more}2`, "");
    await waitFor("it has written again", () => exists(wrote(2)), 60_000);
    expect(await fixture.record(runId)).toMatchObject({ state: "running", kind: "service" });
    expect((await fixture.holdfast("service", "stop", runId, "--grace", "0")).code).toBe(0);
  },
);

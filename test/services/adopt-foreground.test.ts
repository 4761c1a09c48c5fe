import { existsSync as exists } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { House, PATIENT } from "../cli/foreground/called.js";
import { until } from "../io/until.js";

test(
  "a foreground run that was adopted outlives its caller and its gateways, and never waits for a reader",
  PATIENT,
  async () => {
    await using house = await House.started();
    const room = 64 * 1024;
    const more = join(house.home, "more");
    const wrote = (times: number): string => `${more}-${times}`;
    // Each time it is told to, it writes several times what is held for a slow reader.
    const script = `echo up; for time in 1 2; do until [ -e ${more}$time ]; do sleep 0.05; done;
    head -c ${4 * room} /dev/zero; : > ${more}-$time; done; exec sleep 7401`;
    const { child, finished, runId } = await house.call("--buffer", `${room}`, "--", "sh", "-c", script);
    expect(await house.holdfast("service", "adopt", runId)).toMatchObject({ code: 0 });
    child.kill("SIGKILL");
    await finished;
    await writeFile(`${more}1`, "");
    await until(
      "it has written",
      async () => (await house.membersOf(runId)).length > 0 && exists(wrote(1)),
      60_000,
    );

    await house.killGateway();
    await house.comeUp();
    await writeFile(`${more}2`, "");
    await until("it has written again", () => exists(wrote(2)), 60_000);
    expect(await house.record(runId)).toMatchObject({ state: "running", kind: "service" });
    expect((await house.holdfast("service", "stop", runId, "--grace", "0")).code).toBe(0);
  },
);

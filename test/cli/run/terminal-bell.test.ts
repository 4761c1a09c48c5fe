import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { deferred } from "../../../src/async/deferred.js";
import { whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { ForegroundFixture } from "../../support/cli/foreground-fixture.js";
import { waitForText } from "../../support/cli/cli-fixture.js";

test.skipIf(whyNoTerminal !== null)(
  "a bell rings on every attached terminal, and is not delivered without one",
  async () => {
    await using fixture = await ForegroundFixture.open();
    const config = join(fixture.home, "config.toml");
    await writeFile(config, '[channels.bell]\nkind = "bell"\n');
    await fixture.startWith({ HOLDFAST_CONFIG: config }, "gateway", "start").finished;
    const client = await fixture.client();
    const ring = () => client.testChannel({ params: { name: "bell" } });
    const runId = await fixture.startBash();
    // A reader without a terminal has no bell.
    const reading = fixture.start("attach", "--read-only", runId);
    await waitForText(reading.child.stdout, "ready>");
    expect(await ring()).toMatchObject({ delivered: false });

    const there = [deferred<void>(), deferred<void>()] as const;
    const ended = [
      fixture.atTerminal(
        ["attach", runId],
        ["attached; C-] detaches", async () => there[0].resolve()],
        ["\u0007", "\u001d"],
      ),
      fixture.atTerminal(
        ["run", "--", "sh", "-c", "echo up; read word"],
        ["up", async () => there[1].resolve()],
        ["\u0007", "\n"],
      ),
    ];
    await Promise.all(there.map(({ promise }) => promise));
    expect(await ring()).toMatchObject({ delivered: true, receipt: "2 terminals" });
    expect((await Promise.all(ended)).map(({ code }) => code)).toEqual([0, 0]);
    expect(await ring()).toMatchObject({ delivered: false });
    reading.child.kill();
    const { stdout, stderr } = await reading.finished;
    expect(`${stdout}${stderr}`).not.toContain("\u0007");
  },
  60_000,
);

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BackgroundGateway } from "../support/cli/background-gateway.js";

let gatewayFixture: BackgroundGateway;
let runId: string;
beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.started();
  runId = await gatewayFixture.startScript("while :; do echo tick; sleep 0.2; done");
});
afterAll(() => gatewayFixture[Symbol.asyncDispose]());

describe.concurrent("a command that goes on ends with its reader, and says when it cannot be written:", () => {
  test.for([
    ["ps --watch"],
    ["ps --watch --json"],
    ["events -f --after 0"],
    ["events -f --after 0 --json"],
    ["logs -f RUN"],
    ["logs -f RUN --json"],
    ["process log -f RUN"],
    ["attach --read-only RUN"],
  ])("%s", { timeout: 60_000 }, async ([line = ""]) => {
    const command = `holdfast ${line.replace("RUN", runId)}`;
    const { stdout, stderr } = await gatewayFixture.shell(`
      ${command} | head -1 >&2
      echo \${PIPESTATUS[0]}
      ${command} >/dev/full
      echo $?`);
    expect(stdout).toBe("141\n125\n");
    const [first, ...others] = stderr.trimEnd().split("\n");
    expect(first).not.toMatch(/^holdfast:/);
    expect(others).toEqual([expect.stringMatching(/^holdfast: cannot write stdout: ENOSPC/)]);
  });
});

test("an id or a token that cannot be written is not lost without a word", async () => {
  const { stdout, stderr } = await gatewayFixture.shell(`
    holdfast run -d -- sleep 7031 >/dev/full; echo $?
    holdfast run --service --json -- sleep 7032 >/dev/full; echo $?
    holdfast sessions create --key lost >/dev/full; echo $?`);
  expect(stdout).toBe("125\n125\n125\n");
  const [run, service, session] = stderr.split("\n");
  for (const line of [run, service])
    expect(line).toMatch(
      /^holdfast: run_\w{12} was started, but its id could not be written: cannot write stdout: ENOSPC/,
    );
  expect(session).toMatch(
    /^holdfast: ses_\w{12} is open, but its token could not be written; run the same command again for another token: .*ENOSPC/,
  );
});

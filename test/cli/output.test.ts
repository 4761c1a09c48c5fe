import { beforeAll, describe, expect, test } from "vitest";
import { gatewayAndCliForFile } from "../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();
const holdfast = (...args: readonly string[]) => shared.batchCli.holdfast(...args);

describe.concurrent("a command that follows ends with its reader, and reports a failed write:", () => {
  let runId: string;
  beforeAll(async () => {
    // An ended run, so that `events` has more than one line.
    await shared.gatewayFixture.waitForEnd(await shared.gatewayFixture.startScript("true"));
    runId = await shared.gatewayFixture.startScript("while :; do echo tick; sleep 0.2; done");
  });

  test.for([
    ["ps --watch"],
    ["ps --watch --json"],
    ["events -f --all --after 0"],
    ["events -f --all --after 0 --json"],
    ["logs -f RUN"],
    ["logs -f RUN --json"],
    ["process log -f RUN"],
    ["attach --read-only RUN"],
  ])("%s", { timeout: 60_000 }, async ([line = ""]) => {
    const command = `holdfast ${line.replace("RUN", runId)}`;
    const { stdout, stderr } = await shared.gatewayFixture.shell(`
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

test("a failed write of an id or a token is reported", async () => {
  const { stdout, stderr } = await shared.gatewayFixture.shell(`
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

/** Control characters for a terminal that JSON may contain unescaped. */
const HOSTILE = "a\u009b31m\u202eb\u2028c\u007f";
const CONTROL = /[\u007f-\u009f\u202e\u2028]/;

test("--json escapes control characters in output, labels and messages", async () => {
  const run = await holdfast("run", "--json", "--label", `odd=${HOSTILE}`, "--", "printf", "%s", HOSTILE);
  const { runId } = JSON.parse(run.stdout) as { readonly runId: string };
  const { stdout: opened } = await holdfast("sessions", "create", "--json", "--key", "odd");
  const { session } = JSON.parse(opened) as { readonly session: { readonly id: string } };
  const results = [
    run,
    await holdfast("runs", "list", "--all", "--json"),
    await holdfast("runs", "show", "--json", runId),
    await holdfast("sessions", "send", "--json", session.id, HOSTILE),
    await holdfast("sessions", "history", "--json", session.id),
    await holdfast("sessions", "inbox", "--json", session.id),
  ];
  for (const { code, stdout } of results) {
    expect(code).toBe(0);
    expect(stdout).not.toMatch(CONTROL);
    expect(JSON.stringify(JSON.parse(stdout))).toContain(JSON.stringify(HOSTILE).slice(1, -1));
  }
});

import { afterEach, beforeEach, expect, test } from "vitest";
import { KnownHosts } from "../../../src/cli/client/store-hosts.js";
import { psTable } from "../../../src/cli/runs/ps-table.js";
import { CliFixture, waitForText } from "../../support/cli/cli-fixture.js";
import { sampleRunRecord } from "../../support/store/run-samples.js";

let cliFixture: CliFixture;
beforeEach(async () => {
  cliFixture = await CliFixture.open();
});
afterEach(() => cliFixture[Symbol.asyncDispose]());

test("shows a run with its live processes, detached ones included", async () => {
  const { child, finished } = cliFixture.start(
    "run",
    "--label",
    "a=b",
    "--on-escape",
    "sweep",
    "--",
    "sh",
    "-c",
    "setsid sleep 7051 & echo up; sleep 7052",
  );
  await waitForText(child.stdout, "up");
  const { code, stdout } = await cliFixture.holdfast("ps");
  expect(code).toBe(0);
  const [head, run, ...processes] = stdout.trimEnd().split("\n");
  expect(head).toMatch(/^RUN +STATUS +TIME +CPU +MEMORY +PROCS +PID +COMMAND$/);
  expect(run).toMatch(/^run_\w+ +running +\S+ +\S+ +[\d.]+ [KM]iB +3 +sh -c /);
  expect(processes).toHaveLength(3);
  expect(processes.join("\n")).toContain("sleep");
  const shown = JSON.parse((await cliFixture.holdfast("ps", "--label", "a=b", "--json")).stdout) as {
    processes: { rssKb: number }[];
  }[];
  expect(shown).toHaveLength(1);
  expect(shown[0]?.processes.every(({ rssKb }) => rssKb > 0)).toBe(true);
  expect((await cliFixture.holdfast("ps", "--label", "a=c", "--json")).stdout).toBe("[]\n");
  child.kill("SIGINT");
  await finished;
});

test("reports that no run is open", async () => {
  const { code, stdout, stderr } = await cliFixture.holdfast("ps");
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stdout: "",
    stderr: "holdfast: no run is open; --all lists ended runs\n",
  });
});

test("a process cannot forge a line", () => {
  const record = sampleRunRecord({ state: "running", exit: null, endedAt: null, emptiness: null });
  const evil = { pid: 9, startTime: 1, uniqueId: null };
  const processes = [
    {
      identity: evil,
      parentPid: record.anchor?.pid ?? 0,
      sessionId: 9,
      command: "\x1b[2Jx\nrun_fake",
      state: "S",
      cpuMs: 0,
      rssKb: 4,
      ports: [],
    },
  ];
  const shown = {
    ...record,
    hostName: "\x1b[31mhost\nrun_fake",
    care: null,
    silentMs: null,
    health: null,
    ports: [],
    processes,
    claims: [],
    unknown: null,
    elsewhere: false,
  };
  const hosts = new KnownHosts(
    [record.hostId, "another"].map((hostId) => ({
      hostId,
      name: "\x1b[31mhost\nrun_fake",
      platform: "linux",
      firstSeenAt: 0,
      lastSeenAt: 0,
    })),
  );
  const lines = psTable([shown], 62_000, null, hosts);
  expect(lines[1]).toContain(`(${record.hostId.slice(0, 8)})`);
  expect(lines).toHaveLength(3);
  expect(lines.join("")).not.toMatch(/[\x00-\x1f]/);
});

test("processes that cannot be inspected from here are shown as -", () => {
  const record = sampleRunRecord({ state: "running", exit: null, endedAt: null, emptiness: null });
  const noProcesses = { processes: [], claims: [], unknown: null };
  const nothing = { care: null, silentMs: null, health: null, ports: [], ...noProcesses };
  const [, here, there] = psTable(
    [
      { ...record, hostName: "here", elsewhere: false, ...nothing },
      { ...record, hostName: "there", elsewhere: true, ...nothing },
    ],
    62_000,
    null,
  );
  expect(here).toMatch(/ 0ms +0 bytes +0 /);
  expect(there).toMatch(/ - +- +- /);
});

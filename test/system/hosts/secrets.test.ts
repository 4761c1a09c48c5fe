import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { readProcess } from "../../support/live-processes.js";
import type { TestHost } from "./test-host.js";
import { whyNoHosts } from "./test-network.js";
import { MultiHost } from "./multi-host.js";
import { waitFor } from "../../support/wait-for.js";

const numbers = { renewMs: 500, storeBusyMs: 1_000, reconcileMs: 500, eventPollMs: 500 };

type Seen = readonly [where: string, text: string];

/** All regular files in the directory. */
async function texts(directory: string): Promise<Seen[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => {
        const path = join(parentPath, name);
        return [path, await readFile(path, "latin1")] as const;
      }),
  );
}

/** The command lines of all processes, and the environments of all but the gateway, which has the password. */
function processesOf(host: TestHost, gatewayPid: number): Seen[] {
  const pids = host.allPids();
  expect(pids.length).toBeGreaterThan(6);
  return pids.flatMap((pid) => {
    const argv = readProcess(pid)?.argv.join(" ") ?? "";
    const isGateway = new RegExp(`^NSpid:.*\\s${gatewayPid}$`, "m").test(read(pid, "status"));
    return [
      [`command line of ${pid}`, argv] as const,
      [`environment of ${argv}`, isGateway ? "" : read(pid, "environ")] as const,
    ];
  });
}

async function databaseOf({ database, server }: MultiHost): Promise<Seen[]> {
  const all = async (table: string): Promise<Seen> => [
    table,
    JSON.stringify(await database.query(`select * from ${table}`)),
  ];
  const tables = await database.query("select tablename from pg_tables where schemaname = 'holdfast'");
  const names = tables.map(({ tablename }) => `holdfast.${String(tablename)}`);
  return [
    ["the server's log", server.log()],
    ...(await Promise.all([...names, "pg_stat_activity"].map(all))),
  ];
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return ""; // Gone meanwhile.
  }
}

describe.skipIf((whyNoPostgres ?? whyNoHosts) !== null)(
  "the password of the database",
  { timeout: 90_000 },
  () => {
    let multiHost: MultiHost;
    let host: TestHost;
    beforeAll(async () => {
      multiHost = await MultiHost.open(["dan"]);
      [host] = multiHost.hosts as [TestHost];
    });
    afterAll(async () => {
      await multiHost[Symbol.asyncDispose]();
    });

    test("appears nowhere except in the environment of the gateway", async () => {
      const seen: Seen[] = [];
      const gateway = await host.gateway(numbers);
      const { pid: gatewayPid } = await gateway.waitForEvent("up");
      const runId = await host.script("env; sleep 7004");
      await host.script("env; sleep 7004", { pty: true });
      const { exec } = await host.client();
      await exec({ body: { argv: ["/nowhere"] } }).catch(() => {});

      // Messages of the database driver are passed on.
      await host.unplug();
      await gateway.waitForEvent("problem", ({ cause }) => /reach|answer/.test(cause));
      const away = await Promise.all(
        [["run", "--", "true"], ["doctor"], ["runs", "list"]].map((words) => host.holdfast(...words)),
      );
      const [run, doctor] = away;
      expect([run?.code, doctor?.code]).not.toContain(0);
      await host.plug();
      await waitFor(
        "a run succeeds",
        async () => (await host.holdfast("run", "--", "true")).code === 0,
        30_000,
      );
      // A wrong password, and a password in an invalid URL.
      const refused = `postgres://ada:no${multiHost.secret}@${multiHost.address}/x`;
      for (const url of [refused, `postgres//ada:${multiHost.secret}@host/x`]) {
        const { child, finished } = host.startWith({ HOLDFAST_DATABASE_URL: url }, "gateway", "run");
        child.stdin.end();
        away.push(await finished);
      }
      const shown = await Promise.all(
        [
          ["ps"],
          ["runs", "list", "--all", "--json"],
          ["runs", "show", runId],
          ["events"],
          ["gateway", "status"],
          ["gateway", "status", "--json"],
          ["doctor"],
          ["doctor", "--json"],
          ["config", "show"],
          ["config", "show", "--json"],
          ["config", "check"],
          ["logs", runId],
        ].map((words) => host.holdfast(...words)),
      );
      expect(shown.map(({ code }) => code)).toEqual(shown.map(() => 0));
      for (const [at, { stdout, stderr }] of [...away, ...shown].entries())
        seen.push([`output ${at}`, stdout + stderr]);
      seen.push(...(await texts(host.files)));
      seen.push(["events", JSON.stringify(gateway.events)]);

      seen.push(...processesOf(host, gatewayPid), ...(await databaseOf(multiHost)));

      expect(seen.filter(([, text]) => text.includes(multiHost.secret)).map(([where]) => where)).toEqual([]);
      expect(seen.some(([, text]) => text.includes("cannot be reached"))).toBe(true);
      expect(host.bystanderAlive).toBe(true);
    });
  },
);

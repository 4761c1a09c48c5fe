import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { isInstanceLockFree } from "../../../src/home/instance-lock.js";
import { startPostgresServer, whyNoPostgres } from "../../support/store/postgres-server.js";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";

/** Each database in use, as the environment of every process of a test. */
const stores: readonly (readonly [
  name: string,
  whyNot: string | null,
  open: () => Promise<NodeJS.ProcessEnv>,
])[] = [
  ["SQLite", null, async () => ({})],
  [
    "PostgreSQL",
    whyNoPostgres,
    async () => {
      const server = await startPostgresServer();
      onTestFinished(() => server[Symbol.asyncDispose]());
      return { HOLDFAST_DATABASE_URL: (await server.createDatabase()).url };
    },
  ],
];

interface Shown {
  readonly state: string;
  readonly leaseEpoch: number;
  readonly events: readonly { readonly type: string }[];
}

for (const [name, whyNot, open] of stores)
  describe.skipIf(whyNot !== null)(`two gateways of one instance, on ${name}`, () => {
    test("the second is refused although instance.lock was deleted; with the directory replaced, the one without the lock stops and leaves its runs alone", async () => {
      const env = await open();
      await using fixture = await RecoveryFixture.open();
      const first = await fixture.gateway(env);
      const { instanceId } = await first.waitForEvent("up");
      const runId = await service(fixture, env);
      const copier = copiedMarker(runId, instanceId);
      const before = await show(fixture, env, runId);
      const directory = join(fixture.home, "instances", instanceId);
      await rm(join(directory, "instance.lock"));

      const other = fixture.startWith(env, "gateway", "run", "--json");
      const refused = await withTimeout(10_000, "the second gateway ends", other.finished);
      expect(refused).toMatchObject({ code: 125, stdout: "" });
      expect(refused.stderr).toContain("already running");
      await waitFor("the lock file is there and held again", async () => {
        const there = existsSync(join(directory, "instance.lock"));
        return there && !(await isInstanceLockFree(directory));
      });
      await first.waitForEvent("problem", ({ message }) => /instance\.lock/.test(message));
      expect(await show(fixture, env, runId)).toMatchObject({
        state: "running",
        leaseEpoch: before.leaseEpoch,
      });

      // The instance directory is replaced.
      const members = await fixture.membersOf(runId);
      // The first process is stopped meanwhile, so that the second is certain to get the new directory's lock.
      process.kill(first.pid, "SIGSTOP");
      await rename(directory, `${directory}-away`);
      const second = await fixture.gateway(env);
      process.kill(first.pid, "SIGCONT");

      const loser = await withTimeout(20_000, "the first gateway ends", first.finished);
      expect(loser.code).toBe(125);
      expect(loser.stderr).toMatch(/another process of instance in_\w+ .*has stopped/);
      expect(first.events.at(-1)).toMatchObject({ type: "problem" });
      await waitFor(
        "the second holds the run",
        async () => {
          const reached = await reachGateway(fixture.home).catch(() => null);
          return reached?.status.runs === 1;
        },
        20_000,
      );
      expect(await fixture.membersOf(runId)).toEqual(members);
      // Each process of the instance took the run at most once from the other.
      const { leaseEpoch, events } = await show(fixture, env, runId);
      expect(leaseEpoch).toBeLessThanOrEqual(4);
      expect(events.filter(({ type }) => type === "attach").length).toBeLessThanOrEqual(3);
      expect(second.events.filter(({ type }) => type === "down")).toEqual([]);

      expect(copier.exitCode).toBeNull();
      await stop(fixture, env, runId);
      await rm(`${directory}-away`, { recursive: true });
    });
  });

async function service(fixture: RecoveryFixture, env: NodeJS.ProcessEnv): Promise<string> {
  const { child, finished } = fixture.startWith(
    env,
    "run",
    "--service",
    "--grace",
    "200ms",
    "--",
    "sleep",
    "7311",
  );
  child.stdin.end();
  const { stdout, stderr } = await finished;
  const runId = stdout.trim().split("\n").at(-1) ?? "";
  if (!runId.startsWith("run_")) throw new Error(`the service was not started: ${stderr}`);
  return runId;
}

/** A process of the same user that has the run's markers in its environment and no other connection with it. */
function copiedMarker(runId: string, instanceId: string): ChildProcess {
  const child = spawn("sleep", ["3600"], {
    stdio: "ignore",
    env: { ...process.env, HOLDFAST_RUN_ID: runId, HOLDFAST_GATEWAY_INSTANCE_ID: instanceId },
  });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

async function show(fixture: RecoveryFixture, env: NodeJS.ProcessEnv, runId: string): Promise<Shown> {
  const { child, finished } = fixture.startWith(env, "runs", "show", runId, "--json");
  child.stdin.end();
  return JSON.parse((await finished).stdout) as Shown;
}

async function stop(fixture: RecoveryFixture, env: NodeJS.ProcessEnv, runId: string): Promise<void> {
  const { child, finished } = fixture.startWith(env, "runs", "cancel", runId);
  child.stdin.end();
  expect(await finished).toMatchObject({ code: 0 });
}

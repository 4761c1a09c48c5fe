import { mkdtemp, readdir, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import type { CliResult } from "../../support/cli/cli-fixture.js";
import { RunGate } from "../../support/cli/recovery-fixture.js";

const refuse = pathToFileURL(fileURLToPath(new URL("children/refuse-gateway.mjs", import.meta.url))).href;

/** A gateway that was started with a config file, and one of its runs. */
class Configured extends BackgroundGateway {
  runId = "";

  static async begin(config: string): Promise<Configured> {
    const made = new Configured(await mkdtemp(join(tmpdir(), "hf-")));
    await writeFile(made.config, config, { mode: 0o600 });
    const { code, stderr } = await made.with({}, "gateway", "start");
    expect(code, stderr).toBe(0);
    made.runId = await made.startScript("sleep 7011");
    return made;
  }

  get config(): string {
    return join(this.home, "config.toml");
  }

  async with(env: NodeJS.ProcessEnv, ...words: readonly string[]): Promise<CliResult> {
    const options = { NODE_OPTIONS: `--import ${refuse}` };
    const { child, finished } = this.startWith(
      { HOLDFAST_CONFIG: this.config, ...options, ...env },
      ...words,
    );
    child.stdin.end();
    return finished;
  }
}

/** Makes a restart fail. */
type Fault = (place: Configured) => Promise<NodeJS.ProcessEnv>;

const badConfig: Fault = async ({ config }) => {
  await writeFile(config, '[gateway]\nlisten = "0.0.0.0:7433"\n');
  return {};
};
const newerStore: Fault = async (place) => {
  place.sql("insert into holdfast_migrations (id, name, applied_at) values (9999, 'future', 0)");
  return {};
};

describe.concurrent("gateway restart, when", { timeout: 60_000 }, () => {
  test("a check fails, stops nothing", async () => {
    const config = "[defaults]\ngrace-ms = 123\n";
    await using place = await Configured.begin(config);
    const { pid } = await place.status();
    const checks: readonly (readonly [number, string, Fault])[] = [
      [2, "line 2: gateway.listen must be a loopback address", badConfig],
      [125, "was written by a newer Holdfast", newerStore],
      [125, "/nowhere/anchor", async () => ({ HOLDFAST_ANCHOR: "/nowhere/anchor" })],
      [125, "refused by the test", async () => ({ REFUSE_CHECK: "1" })],
    ];
    for (const [expected, why, fault] of checks) {
      const env = await fault(place);
      const { code, stdout, stderr } = await place.with(env, "gateway", "restart");
      await writeFile(place.config, config);
      if (fault === newerStore) place.sql("delete from holdfast_migrations where id = 9999");
      expect({ code, stdout }, stderr).toEqual({ code: expected, stdout: "" });
      expect(stderr).toContain(why);
      expect(stderr).toContain(`the gateway was not restarted: it continues unchanged (pid ${pid})`);
      expect(await place.status()).toMatchObject({ pid, ready: true, runs: 1 });
      expect(await place.record(place.runId)).toMatchObject({ state: "running" });
    }
  });

  test("the new gateway does not start, starts the former configuration again, and reports it", async () => {
    await using place = await Configured.begin("[defaults]\ngrace-ms = 123\n");
    const { pid } = await place.status();
    await writeFile(place.config, "[defaults]\ngrace-ms = 456\n");
    const { code, stderr } = await place.with({ REFUSE_CONFIG: place.config }, "gateway", "restart");
    expect(code, stderr).toBe(3);
    expect(stderr).toContain("the gateway did not start with the new configuration: refused by the test");
    expect(stderr).toContain("it was started again with the former configuration");
    expect(stderr).not.toMatch(/nothing was changed/i);
    const now = await place.status();
    expect(now).toMatchObject({ ready: true, runs: 1 });
    expect(now.pid).not.toBe(pid);
    const graceMs = async (): Promise<number | null> => {
      const { run } = await (await place.client()).exec({ body: { argv: ["true"] } });
      return run.policy.graceMs;
    };
    expect(await graceMs()).toBe(123);
    expect(await place.record(place.runId)).toMatchObject({ state: "running" });
    const directory = join(place.home, "instances", now.instanceId);
    for (const name of ["config.toml", "gateway.json"])
      expect((await stat(join(directory, name))).mode & 0o777, name).toBe(0o600);
    expect((await readdir(directory)).filter((name) => name.endsWith(".new"))).toEqual([]);

    // The environment of the former gateway, too.
    await place.stop();
    expect((await place.with({ HOLDFAST_DEFAULTS_GRACE_MS: "321" }, "gateway", "start")).code).toBe(0);
    const again = await place.with({ REFUSE_CONFIG: place.config }, "gateway", "restart");
    expect(again.code, again.stderr).toBe(3);
    expect(await graceMs()).toBe(321);

    // Neither starts: it reports that no gateway runs, and when the runs end.
    const service = await place.startRun({ argv: ["sleep", "7012"], kind: "service" });
    const neither = await place.with({ REFUSE_CONFIG: "*" }, "gateway", "restart");
    expect(neither.code).toBe(125);
    for (const sentence of [
      "the gateway did not start with the new configuration: refused by the test",
      "it did not start with the former configuration either: refused by the test",
      "No gateway is running",
    ])
      expect(neither.stderr).toContain(sentence);
    expect(neither.stderr).toMatch(new RegExp(`${place.runId} in (2m|1m5\\ds)`));
    expect(neither.stderr).not.toContain(service);
    expect(neither.stderr).not.toMatch(/nothing was changed/i);
    expect(await place.record(place.runId)).toMatchObject({ state: "running" });
    expect((await place.holdfast("gateway", "status")).code).toBe(1);
  });
});

test("gateway restart starts a gateway if none runs, and keeps the live runs of one", async () => {
  await using gatewayFixture = await BackgroundGateway.open();
  const started = await gatewayFixture.holdfast("gateway", "restart");
  expect(started).toMatchObject({ code: 0, stderr: "holdfast: no gateway was running\n" });
  expect(started.stdout).toMatch(/^started: gateway [^\n]+\n$/);
  await using gate = await RunGate.create();
  const runId = await gatewayFixture.startScript(`echo up; read line <'${gate.path}'; echo after; exit 7`);
  await gatewayFixture.waitForOutput(runId, "up");
  const { pid } = await gatewayFixture.status();
  const { code, stdout } = await gatewayFixture.holdfast("gateway", "restart");
  expect(code).toBe(0);
  expect(stdout).toMatch(/ is down; runs: 1 left to their anchors\nstarted: .* 1 open run, state in .*\n$/);
  expect((await gatewayFixture.status()).pid).not.toBe(pid);
  await gate.release();
  expect(await gatewayFixture.holdfast("logs", "-f", runId)).toMatchObject({
    code: 0,
    stdout: "up\nafter\n",
  });
  expect(await gatewayFixture.waitForEnd(runId)).toMatchObject({
    exit: { reason: "exit", code: 7 },
    emptiness: "proven",
  });
  expect(await gatewayFixture.json("gateway", "restart")).toMatchObject({ running: true, started: true });
});

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BatchCli } from "../support/cli/batch-cli.js";
import { CliFixture, type CliResult } from "../support/cli/cli-fixture.js";
import {
  type ClusterProcess,
  GatewayCluster,
  onOtherHost,
  OTHER_HOST,
  startRun,
} from "../support/gateway/gateway-cluster.js";
import { waitForRunEnd } from "../support/gateway/real-gateway.js";
import { whyNoMounts } from "../support/small-disk.js";
import { whyNoPostgres } from "../support/store/postgres-server.js";
import { waitFor } from "../support/wait-for.js";

const LONG = { timeout: 120_000 };

describe.skipIf(whyNoPostgres !== null || whyNoMounts !== null)("a run of another host", LONG, () => {
  let cluster: GatewayCluster;
  let far: ClusterProcess;
  let around: readonly string[];
  let cliFixture: CliFixture;
  let batchCli: BatchCli;
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
    const home = await cluster.newHome();
    around = await onOtherHost(home);
    far = await cluster.spawnGateway(home, around);
    cliFixture = await CliFixture.open();
    batchCli = new BatchCli({ ...cliFixture.env, HOLDFAST_DATABASE_URL: cluster.database.url });
  });
  afterAll(async () => {
    await holdfast("gateway", "stop");
    await batchCli[Symbol.asyncDispose]();
    await cliFixture[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });

  const holdfast = (...args: string[]): Promise<CliResult> => batchCli.holdfast(...args);
  /** In a process of its own: beside other commands. */
  const beside = (...args: string[]): Promise<CliResult> => {
    const going = cliFixture.startWith({ HOLDFAST_DATABASE_URL: cluster.database.url }, ...args);
    going.child.stdin.end();
    return going.finished;
  };

  test("cannot be read without a gateway here; a stop starts one", async () => {
    const runId = await startRun(far, "echo hello; sleep 1000", { pty: true });
    for (const words of [["logs"], ["screen"], ["process", "poll"]]) {
      const { code, stderr } = await holdfast(...words, runId);
      expect(code).toBe(125);
      expect(stderr).toContain(`is on host ${OTHER_HOST}`);
      expect(stderr).toContain("holdfast gateway start");
    }
    expect((await holdfast("runs", "abandon", runId, "--yes")).stderr).toContain("abandon it there");
    const { code, stdout, stderr } = await holdfast("runs", "cancel", runId);
    expect(code).toBe(0);
    // On a loaded machine the answer comes before the record.
    expect(stdout).toMatch(
      new RegExp(`^${runId} is gone \\((manual-cancel|its end is being recorded)\\)\n$`),
    );
    expect(stderr).toContain("started a gateway");
  });

  test("is read, followed, written to and stopped like a local run", async () => {
    const bytes = 3_000_000;
    const script = `read go; yes 0123456789abcdef | head -c ${bytes}; exit 7`;
    const runId = await startRun(far, script, { stdin: "pipe" });
    const following = beside("process", "log", "--raw", "--offset", "0", "--follow", runId);
    expect(await holdfast("process", "write", runId, "go\n")).toMatchObject({ code: 0 });
    const { code, stdout } = await following;
    expect(code).toBe(0);
    const wanted = "0123456789abcdef\n".repeat(bytes / 17 + 1).slice(0, bytes);
    const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
    expect(hash(stdout)).toBe(hash(wanted));
    const shell = await startRun(
      far,
      "stty -echo; printf 'name? '; read name; echo \"hi $name\"; sleep 1000",
      {
        pty: true,
      },
    );
    await holdfast("process", "send-keys", shell, "literal:ada", "Enter");
    await waitFor("the run answers", async () => (await holdfast("screen", shell)).stdout.includes("hi ada"));
    const watching = beside("attach", "--read-only", shell);
    const killed = await holdfast("process", "kill", shell, "--json");
    expect(JSON.parse(killed.stdout)).toMatchObject({ outcome: "gone", command: { hostName: OTHER_HOST } });
    expect((await watching).stderr).toContain("has ended");
  });

  test("is cleaned up by its label through the gateway there", async () => {
    const runIds = await Promise.all(
      [1, 2].map(() => startRun(far, "sleep 1000", { labels: { ticket: "42" } })),
    );
    const other = await startRun(far, "sleep 1000");
    const shown = await holdfast("runs", "cleanup", "--label", "ticket=42", "--dry-run");
    expect(shown.stdout).toContain("forward the stop to the gateway that owns the run");
    const { code, stdout } = await holdfast("runs", "cleanup", "--label", "ticket=42", "--yes", "--json");
    expect(code).toBe(0);
    const { runs } = JSON.parse(stdout) as { runs: { runId: string; outcome: string }[] };
    expect(new Map(runs.map(({ runId, outcome }) => [runId, outcome]))).toEqual(
      new Map(runIds.map((runId) => [runId, "gone"])),
    );
    expect(await far.client.getRun({ params: { runId: other } })).toMatchObject({ state: "running" });
    await holdfast("runs", "cancel", other);
  });

  test("has its stop forwarded while its host is away, is forgotten after its lease, and ended when the host returns", async () => {
    const script = `sleep 4242 & wait`;
    const [given, stopped] = [await startRun(far, script), await startRun(far, script)];
    expect((await holdfast("runs", "forget", given, "--yes")).stderr).toMatch(/its gateway \S+ was seen/);
    await far.kill();
    const { code, stderr, stdout } = await holdfast("runs", "cancel", stopped, "--json");
    expect(code).toBe(4);
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toMatchObject({
      outcome: "handed-over",
      command: { hostName: OTHER_HOST, accepted: false },
    });
    await cluster.database.query(
      `update holdfast.gateways set heartbeat_at = heartbeat_at - 40000 where host_name = '${OTHER_HOST}'`,
    );
    expect((await holdfast("runs", "forget", "--host", OTHER_HOST, "--yes")).stderr).toContain(
      "holds the lease",
    );
    await cluster.database.query(
      `update holdfast.runs set lease_expires_at = lease_expires_at - 40000 where run_id = '${given}'`,
    );
    expect((await holdfast("runs", "forget", "--host", "nowhere", "--yes")).code).toBe(1);
    expect(await holdfast("runs", "forget", given, "--yes")).toMatchObject({
      code: 0,
      stdout: `${given} is recorded as lost\n`,
    });
    const [record] = await cluster.database.query(
      `select exit_reason, exit_actor, emptiness from holdfast.runs where run_id = '${given}'`,
    );
    expect(record).toMatchObject({ exit_reason: "lost", emptiness: "unproven" });
    expect(record?.["exit_actor"]).toMatch(/^cli:/);
    const { stdout: events } = await holdfast("events", "--run", given, "--json");
    expect(events.trim().split("\n").at(-1)).toContain('"emptiness":"unproven"');
    expect(sleeping(4242)).toBe(2);
    far = await cluster.spawnGateway(far.home, around);
    expect((await waitForRunEnd(far.client, stopped)).exit).toMatchObject({ reason: "manual-cancel" });
    await waitFor("no process of either run is left", () => sleeping(4242) === 0);
    expect((await far.client.getRun({ params: { runId: given } })).exit?.reason).toBe("lost");
  });

  test("is forgotten with its host, whose gateway record is deleted", async () => {
    const runId = await startRun(far, "sleep 4343");
    await far.kill();
    await cluster.database.query(
      `update holdfast.gateways set heartbeat_at = heartbeat_at - 40000 where host_name = '${OTHER_HOST}'`,
    );
    await cluster.database.query(
      `update holdfast.runs set lease_expires_at = lease_expires_at - 40000 where run_id = '${runId}'`,
    );
    const { code, stdout } = await holdfast("runs", "forget", "--host", OTHER_HOST, "--yes", "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      runs: [{ runId, forgotten: true }],
      gateways: [expect.stringMatching(/^in_/)],
    });
    const rows = await cluster.database.query(
      `select * from holdfast.gateways where host_name = '${OTHER_HOST}'`,
    );
    expect(rows).toEqual([]);
    far = await cluster.spawnGateway(far.home, around);
    await waitFor("no process of the run is left", () => sleeping(4343) === 0);
  });

  test("of this host is not forgotten, unless its state directory cannot be reached", async () => {
    const home = await cluster.newHome();
    const near = await cluster.spawnGateway(home);
    const [stopped, runId] = [await startRun(near, "sleep 1000"), await startRun(near, "sleep 4545")];
    const { code, stderr } = await holdfast("runs", "forget", stopped, "--yes");
    expect(code).toBe(3);
    expect(stderr).toContain(`in the state directory ${home}`);
    const cancelled = await batchCli.holdfastWith({ HOLDFAST_HOME: home }, "runs", "cancel", stopped);
    expect(cancelled).toMatchObject({ code: 0 });
    await near.kill();
    const later = async (): Promise<void> => {
      await cluster.database.query("update holdfast.gateways set heartbeat_at = heartbeat_at - 40000");
      await cluster.database.query(
        `update holdfast.runs set lease_expires_at = lease_expires_at - 40000 where run_id = '${runId}'`,
      );
    };
    await rename(home, `${home}-away`);
    expect((await holdfast("runs", "forget", runId, "--yes")).stderr).toMatch(/its gateway \S+ was seen/);
    await later();
    const lost = { code: 0, stdout: `${runId} is recorded as lost\n` };
    expect(await holdfast("runs", "forget", runId, "--yes")).toMatchObject(lost);
    expect(sleeping(4545)).toBe(1);
    await rename(`${home}-away`, home);
    await cluster.spawnGateway(home);
    await waitFor("no process of the run is left", () => sleeping(4545) === 0);
  });
});

/** The number of `sleep <seconds>` processes. */
function sleeping(seconds: number): number {
  return readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, "utf8") === `sleep\0${seconds}\0`;
    } catch {
      return false;
    }
  }).length;
}

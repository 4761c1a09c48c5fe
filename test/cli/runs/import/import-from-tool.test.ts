import { DatabaseSync } from "@photostructure/sqlite";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { RecoveryFixture } from "../../../support/cli/recovery-fixture.js";
import { isAlive, type LiveProcess } from "../../../support/live-processes.js";
import { OtherTool } from "./other-tool.js";

interface Result {
  readonly runId: string | null;
  readonly pid: number;
  readonly sessionKey: string;
  readonly verified: boolean;
  readonly why: string;
}

const byKey = (results: readonly Result[]) =>
  new Map(results.map((each) => [each.sessionKey, each] as const));

describe.concurrent("runs import --from", () => {
  test("acpx: imports an agent whose owner is gone, without a wrapper, and nothing that is not proven", async () => {
    await using fixture = await RecoveryFixture.open();
    await using tool = new OtherTool(fixture.home);
    const at = new Date().toISOString();
    const agent = join(tool.directory, "agent.sh");
    const processes = new Map<string, LiveProcess>();
    const add = async (name: string, change: object = {}, owner: number | null = null): Promise<void> => {
      const living = await tool.start("agent.sh", "--acp");
      processes.set(name, living);
      await tool.write(`sessions/${name}.json`, {
        schema: "acpx.session.v1",
        acpx_record_id: `rec-${name}`,
        agent_command: `/bin/sh '${agent}' --acp`,
        name,
        pid: living.pid,
        agent_started_at: at,
        closed: false,
        ...change,
      });
      if (owner !== null) await tool.write(`queues/${name}.lock`, { pid: owner, sessionId: `rec-${name}` });
    };
    await add("orphan", {}, 2 ** 22 - 2);
    await add("owned", {}, process.pid);
    await add("parented");
    await add("closed", { closed: true });
    await add("recycled", { agent_started_at: "2020-01-01T00:00:00.000Z" });
    await add("other", { agent_argv: ["/bin/sh", agent] });
    await tool.write("sessions/index.json", { version: 1 });
    await tool.write("sessions/future.json", { schema: "acpx.session.v9" });
    const before = await tool.contents();

    const words = ["runs", "import", "--from", "acpx", tool.directory];
    const dry = byKey(await fixture.json<Result[]>(...words, "--dry-run"));
    expect(dry.get("orphan")).toMatchObject({ runId: null, verified: true });
    expect(await readdir(fixture.home)).not.toContain("store.sqlite");
    const results = byKey(await fixture.json<Result[]>(...words));
    const again = byKey(await fixture.json<Result[]>(...words));
    const { runId } = results.get("orphan") ?? {};
    expect(runId).toMatch(/^run_/);
    expect(again.get("orphan")?.runId).toBe(runId);
    for (const [key, why] of [
      ["owned", /owner, process \d+, is alive/],
      ["parented", /may be its owner/],
      ["closed", /has ended/],
      ["recycled", /another time/],
      ["other", /another command/],
    ] as const) {
      expect(results.get(key)).toMatchObject({ runId: null, verified: false });
      expect(results.get(key)?.why).toMatch(why);
    }
    const text = await fixture.holdfast(...words);
    expect(text.stderr).toMatch(/not used: .*future\.json: it is not a session record of acpx/);

    await fixture.holdfast("runs", "cleanup", "--label", "from=acpx", "--yes");
    for (const [name, living] of processes)
      expect([name, isAlive(living)]).toEqual([name, name !== "orphan"]);
    expect(await tool.contents()).toEqual(before);
  });

  test("openclaw: imports wrappers by their leases, from the file and the database, and agents of sessions, and leaves look-alikes", async () => {
    await using fixture = await RecoveryFixture.open();
    await using tool = new OtherTool(fixture.home);
    const wrapperRoot = join(tool.directory, "acpx");
    const wrapperPath = join(wrapperRoot, "codex-acp-wrapper.mjs");
    const start = (leaseId: string) =>
      tool.start(
        "acpx/codex-acp-wrapper.mjs",
        ...["--openclaw-acpx-lease-id", leaseId, "--openclaw-gateway-instance-id", "gw"],
      );
    const lease = (leaseId: string, { pid }: LiveProcess) => ({
      ...{ leaseId, gatewayInstanceId: "gw", sessionKey: leaseId, wrapperRoot, wrapperPath },
      ...{ rootPid: pid, commandHash: "x", startedAt: Date.now(), state: "open" },
    });
    const [inFile, inDatabase, lookalike] = [await start("one"), await start("two"), await start("three")];
    await tool.write("acpx/process-leases.json", {
      version: 1,
      leases: [lease("one", inFile), lease("stolen", lookalike)],
    });
    await mkdir(join(tool.directory, "state"));
    const db = new DatabaseSync(join(tool.directory, "state", "openclaw.sqlite"));
    db.exec(
      "create table plugin_state_entries (plugin_id text, namespace text, entry_key text, value_json text, created_at integer, expires_at integer)",
    );
    db.prepare("insert into plugin_state_entries values ('acpx', 'process-leases', 'two', ?, 1, null)").run(
      JSON.stringify(lease("two", inDatabase)),
    );
    db.close();
    const agent = await tool.start("agent.sh", "--acp");
    await tool.write("workspace/state/sessions/former.json", {
      ...{ schema: "openclaw.acpx.session.v1", acpxRecordId: "former", pid: agent.pid },
      agentCommand: `/bin/sh '${join(tool.directory, "agent.sh")}' --acp`,
      agentStartedAt: new Date().toISOString(),
    });
    const before = await tool.contents();

    const words = ["runs", "import", "--from", "openclaw", tool.directory];
    for (const { verified, why } of await fixture.json<Result[]>(...words, "--dry-run"))
      expect([verified, why]).toEqual([false, expect.stringMatching(/may be its owner|recorded lease/)]);
    const results = byKey(await fixture.json<Result[]>(...words, "--owner-gone"));
    expect(results.get("one")).toMatchObject({ verified: true, pid: inFile.pid });
    expect(results.get("two")).toMatchObject({ verified: true, pid: inDatabase.pid });
    expect(results.get("former")).toMatchObject({ verified: true, pid: agent.pid });
    expect(results.get("stolen")).toMatchObject({ verified: false, runId: null });
    await fixture.holdfast("runs", "cleanup", "--label", "from=openclaw", "--yes");
    expect([inFile, inDatabase, agent, lookalike].map(isAlive)).toEqual([false, false, false, true]);
    expect(await tool.contents()).toEqual(before);
  });

  test("a missing directory, file or tool is refused with what to do", async () => {
    await using fixture = await RecoveryFixture.open();
    const missing = await fixture.holdfast("runs", "import", "--from", "acpx", join(fixture.home, "none"));
    expect(missing).toMatchObject({ code: 1, stdout: "" });
    expect(missing.stderr).toMatch(
      /there is no directory .*none that can be read \(ENOENT\); nothing was imported/,
    );
    expect((await fixture.holdfast("runs", "import")).code).toBe(2);
    expect((await fixture.holdfast("runs", "import", "--from", "zed")).code).toBe(2);
    expect((await fixture.holdfast("runs", "import", "/dev/null", "--owner-gone")).code).toBe(2);
  });
});

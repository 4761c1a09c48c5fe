import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startServer, whyNoPostgres, type TestServer } from "../store/postgres/server.js";
import { Field, Gate, whyNoTerminal } from "./field.js";
import { Resident } from "./resident.js";
import { Stage } from "./stage.js";

describe.skipIf(whyNoPostgres !== null)("store", { timeout: 120_000 }, () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test("open runs live through a move to PostgreSQL and back, and end as they really do", async () => {
    await using resident = await Resident.open();
    await using gate = await Gate.make();
    const url = (await server.createDatabase()).url;
    const env = { HOLDFAST_DATABASE_URL: url };
    const copy = (...words: readonly string[]) => resident.startWith(env, "store", "copy", ...words).finished;

    const first = await resident.gateway();
    const runId = await resident.script(gate.wait(3));
    await resident.wrote(runId, "up");
    const processes = await resident.membersOf(runId);
    const refused = await copy("--from", resident.store, "--to", "env:HOLDFAST_DATABASE_URL");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(/^holdfast: nothing was copied: supervisor in_\w+ is at work in /);
    await first.kill("SIGTERM");

    const there = await copy("--from", resident.store, "--to", "env:HOLDFAST_DATABASE_URL");
    expect(there).toMatchObject({ code: 0, stderr: "" });
    expect(there.stdout).toMatch(/^runs +1 +[0-9a-f]{32}$/m);
    const second = await resident.gateway(env);
    const { getRun } = await resident.client();
    expect(await getRun({ params: { runId } })).toMatchObject({ runId, state: "running" });
    expect(await resident.membersOf(runId)).toEqual(processes);
    await resident.wrote(runId, "up");
    await second.kill("SIGTERM");

    for (const end of ["", "-wal", "-shm"])
      await rename(`${resident.store}${end}`, `${resident.store}.old${end}`).catch(() => {});
    const back = await copy("--from", "env:HOLDFAST_DATABASE_URL", "--to", resident.store, "--json");
    expect(JSON.parse(back.stdout)).toMatchObject({ to: resident.store });
    const third = await resident.gateway();
    expect(await resident.membersOf(runId)).toEqual(processes);
    await gate.open();
    expect(await resident.ended(runId)).toMatchObject({
      exit: { reason: "exit", code: 3 },
      emptiness: "proven",
    });
    const types = (await resident.events(runId)).map(({ type }) => type);
    expect(types).toContain("spawn");
    expect(types.filter((type) => type === "exit")).toHaveLength(1);
    await third.kill("SIGTERM");
  });

  test("a password on the command line works, is warned of, and shown nowhere", async () => {
    await using stage = await Stage.open();
    const database = await server.createDatabase();
    const url = database.url.replace("postgres@", "postgres:hunter2@");
    await stage.holdfast("run", "--", "true");
    const store = join(stage.home, "store.sqlite");
    const copied = await stage.holdfast("store", "copy", "--from", store, "--to", url);
    expect(copied).toMatchObject({ code: 0 });
    expect(copied.stderr).toMatch(/^holdfast: the command line has a password/);
    expect(copied.stdout).toContain(`to postgres database ${database.name} at`);
    expect(copied.stdout + copied.stderr).not.toContain("hunter2");
    const file = join(stage.home, "address");
    await writeFile(file, url, { mode: 0o600 });
    const again = await stage.holdfast("store", "copy", "--from", store, "--to", `url-file:${file}`);
    expect(again).toMatchObject({ code: 1, stdout: "" });
    expect(again.stderr).toMatch(/^holdfast: nothing was copied: postgres database .* already has records/);
    const check = await stage.holdfast("store", "check", `url-file:${file}`, "--json");
    expect(JSON.parse(check.stdout)).toMatchObject({ exists: true, runs: { open: 0, ended: 1 } });
  });

  test.skipIf(whyNoTerminal !== null)("on a terminal it says how far it has come", async () => {
    await using field = await Field.open();
    await field.holdfast("run", "--", "true");
    const to = join(field.home, "other.sqlite");
    const { code, stdout } = await field.atTerminal(["store", "copy", "--from", field.store, "--to", to]);
    expect(code).toBe(0);
    expect(stdout).toContain("\u001b[Kruns: 1\u001b[Krun_events: ");
    expect(stdout).toContain("every table has the same rows and checksum on both sides");
  });

  test("check says what is in the store in use, or that there is nothing", async () => {
    await using stage = await Stage.open();
    expect((await stage.holdfast("store", "check")).stdout).toMatch(/ has no records yet\n$/);
    await stage.holdfast("run", "--", "true");
    const { code, stdout } = await stage.holdfast("store", "check");
    expect(code).toBe(0);
    expect(stdout).toMatch(/store\.sqlite can be used; schema \d+, 0 open and 1 ended runs, \d+ events\n$/);
    await writeFile(join(stage.home, "x.sqlite"), "no database at all, and long enough to be none");
    const none = await stage.holdfast("store", "check", join(stage.home, "x.sqlite"));
    expect(none.code).toBe(125);
    expect(none.stderr).toContain("is damaged or not a Holdfast store");
  });
});

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test, vi } from "vitest";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { cliPath, cliWithDefaults } from "../../support/cli/cli-fixture.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { startPostgresServer, whyNoPostgres } from "../../support/store/postgres-server.js";
import { removeStateDirectory } from "../../support/temporary-directory.js";

/** A gateway in a process of its own, and the reports of the command line about it. */
class Watched implements AsyncDisposable {
  readonly #home: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #gateway: ChildProcess;
  readonly #bystander = spawn("sleep", ["300"], { stdio: "ignore" });
  #log = "";

  constructor(home: string, env: NodeJS.ProcessEnv) {
    this.#home = home;
    this.#env = { ...process.env, HOLDFAST_HOME: home, ...env };
    // Its heartbeat finds out whether the store can be written.
    const words = [...cliWithDefaults({ renewMs: 1_000, privilegeCheckMs: 1_000 }), "gateway", "run"];
    this.#gateway = spawn(process.execPath, words, { env: this.#env });
    this.#gateway.stdout?.on("data", (part: Buffer) => (this.#log += part.toString()));
    this.#gateway.stderr?.on("data", (part: Buffer) => (this.#log += part.toString()));
  }

  async ready(): Promise<void> {
    await vi.waitFor(async () => expect((await reachGateway(this.#home))?.status.ready).toBe(true), {
      timeout: 30_000,
      interval: 50,
    });
  }

  cli(...args: string[]): Promise<{ code: number; stdout: string }> {
    return new Promise((resolve) =>
      execFile(process.execPath, [cliPath, ...args], { env: this.#env }, (error, stdout) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout }),
      ),
    );
  }

  async metrics(): Promise<string> {
    const headers = { authorization: `Bearer ${(await readOperatorToken(this.#home)) ?? ""}` };
    const sent = request({ socketPath: gatewaySocketPath(this.#home), path: "/metrics", headers });
    sent.end();
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    return text(response);
  }

  /** Metrics, status, doctor and log report that the store cannot be written, with the reason. */
  async isUnwritable(why: RegExp): Promise<void> {
    await vi.waitFor(async () => expect(await this.metrics()).toMatch(/^holdfast_store_writable 0$/m), {
      timeout: 30_000,
      interval: 200,
    });
    const metrics = await this.metrics();
    expect(metrics).toMatch(/^holdfast_store_write_backlog \d+$/m);
    expect(metrics).toMatch(/^holdfast_store_renewal_age_seconds [\d.]+$/m);
    expect((await this.cli("gateway", "status")).stdout).toMatch(why);
    const status = JSON.parse((await this.cli("gateway", "status", "--json")).stdout) as object;
    expect(status).toMatchObject({ storeWrites: { writable: false } });
    const doctor = await this.cli("doctor", "--json");
    expect(doctor.code).toBe(1);
    const { checks } = JSON.parse(doctor.stdout) as {
      checks: { name: string; state: string; detail: string }[];
    };
    const check = checks.find(({ name }) => name === "store writes");
    expect(check?.state).toBe("bad");
    expect(check?.detail).toMatch(why);
    await vi.waitFor(() => expect(this.#log).toContain("the store cannot be written"), { timeout: 5_000 });
  }

  async isWritableAgain(): Promise<void> {
    await vi.waitFor(async () => expect(await this.metrics()).toMatch(/^holdfast_store_writable 1$/m), {
      timeout: 30_000,
      interval: 200,
    });
    await vi.waitFor(
      async () => expect((await this.cli("events", "--json")).stdout).toContain("store-unwritable"),
      { timeout: 20_000, interval: 200 },
    );
    expect((await this.cli("gateway", "status")).stdout).not.toContain("not written");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#gateway, "exit");
    this.#gateway.kill("SIGTERM");
    await ended;
    expect([this.#bystander.exitCode, this.#bystander.signalCode]).toEqual([null, null]);
    this.#bystander.kill("SIGKILL");
  }
}

describe.skipIf(whyNoPostgres !== null)(
  "a PostgreSQL that can be read and not written is not healthy",
  () => {
    test.concurrent(
      "when its user may not write any more, or it has become a stand-by",
      { timeout: 120_000 },
      async () => {
        await using server = await startPostgresServer();
        const database = await server.createDatabase();
        await database.query("create role app login");
        await database.query(`grant create on database ${database.name} to app`);
        const home = await mkdtemp(join(tmpdir(), "hf-"));
        {
          const url = database.url.replace("postgres@", "app@");
          await using gateway = new Watched(home, { HOLDFAST_DATABASE_URL: url });
          await gateway.ready();
          // A table that no gateway needs.
          await database.query("create table holdfast.runs_before as select * from holdfast.runs");
          // One table is enough: a heartbeat does not write to it.
          await database.query("revoke insert on holdfast.runs from app");
          await gateway.isUnwritable(/may not write to runs/);
          await database.query("grant insert on holdfast.runs to app");
          await gateway.isWritableAgain();
          await server.kill();
          await server.start({ standBy: true });
          await gateway.isUnwritable(/stand-by/);
          await server.kill();
          await server.start();
          await gateway.isWritableAgain();
        }
        await removeStateDirectory(home);
      },
    );
  },
);

describe.skipIf(whyNoMounts !== null)(
  "a SQLite store that can be read and not written is not healthy",
  () => {
    test.concurrent("on a full disk, or on a read-only file system", { timeout: 120_000 }, async () => {
      await using disk = mountSmallDisk("8m");
      {
        await using gateway = new Watched(disk.path, { HOLDFAST_DATABASE_URL: "" });
        await gateway.ready();
        const filler = join(disk.path, "filler");
        writeFileSync(filler, "");
        // Down to the last byte.
        for (let size = 64 * 1024; size >= 1;)
          try {
            appendFileSync(filler, Buffer.alloc(size));
          } catch {
            size = Math.floor(size / 2);
          }
        await gateway.isUnwritable(/full|space|room/i);
        rmSync(filler);
        await gateway.isWritableAgain();
      }
      const env = { ...process.env, HOLDFAST_HOME: disk.readOnlyPath, HOLDFAST_DATABASE_URL: "" };
      const stdout = await new Promise<string>((resolve) =>
        execFile(process.execPath, [cliPath, "doctor", "--json"], { env }, (_error, said) => resolve(said)),
      );
      const { checks } = JSON.parse(stdout) as { checks: { name: string; state: string }[] };
      expect(checks).toContainEqual(expect.objectContaining({ name: "store writes", state: "bad" }));
    });
  },
);

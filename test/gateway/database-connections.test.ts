import { spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createClient } from "../../src/api/client.js";
import { openGateway } from "../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../src/home/state-directory.js";
import { readOperatorToken } from "../../src/sessions/tokens.js";
import { CONNECTIONS_PER_GATEWAY } from "../../src/store/postgres/server-properties.js";
import { postgresForSuite, whyNoPostgres } from "../support/store/postgres-server.js";
import { temporaryHome } from "../support/supervisor/real-supervisor.js";
import { waitFor } from "../support/wait-for.js";

describe.skipIf(whyNoPostgres !== null)("a gateway's connections", () => {
  const server = postgresForSuite();

  test("are five at most under load, and two at rest", { timeout: 90_000 }, async () => {
    const database = await server.createDatabase();
    const most = CONNECTIONS_PER_GATEWAY;
    expect(most).toBe(5);
    // One more is refused, and would be a problem.
    await database.query(
      `create role few login connection limit ${most}; grant create on database ${database.name} to few`,
    );
    vi.stubEnv("HOLDFAST_DATABASE_URL", database.url.replace("//postgres@", "//few@"));
    onTestFinished(() => void vi.unstubAllEnvs());
    const bystander = spawn("sleep", ["300"], { stdio: "ignore" });
    onTestFinished(() => {
      expect([bystander.exitCode, bystander.signalCode]).toEqual([null, null]);
      bystander.kill("SIGKILL");
    });
    const home = await temporaryHome();
    const problems: string[] = [];
    const gateway = await openGateway({
      home,
      onEvent: (news) => {
        if (news.type === "problem") problems.push(`${news.message}: ${news.cause}`);
      },
    });
    onTestFinished(() => gateway.stop({ runs: "terminate", waitMs: 0 }));
    await gateway.ready;
    const client = createClient({
      socketPath: gatewaySocketPath(home),
      token: (await readOperatorToken(home)) ?? "",
    });

    // The supervisor's transactions and the office's, many times as many as there are connections.
    const at = Array.from({ length: 16 }, (_, each) => each);
    const ends = await Promise.all([
      ...at.map(() => client.exec({ body: { argv: ["true"] } })),
      ...at.map((each) => client.openSession({ body: { key: `s${each}` } })),
      ...at.map(() => client.listRuns({ query: {} })),
    ]);
    expect(ends).toHaveLength(3 * at.length);
    expect(await client.listSessions({ query: {} })).toMatchObject({ sessions: { length: at.length } });
    expect(problems).toEqual([]);

    const connections = async (): Promise<number> => {
      const rows = await database.query(
        "select count(*)::int as n from pg_stat_activity where usename = 'few'",
      );
      return Number(rows[0]?.["n"]);
    };
    expect(await connections()).toBeGreaterThan(2);
    const atRest = async (): Promise<boolean> => {
      await delay(250);
      return (await connections()) === 2;
    };
    await waitFor("two at rest", atRest, 60_000);
  });
});

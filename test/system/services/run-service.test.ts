import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { PsRow } from "../../../src/cli/runs/ps-table.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { answeringPid, freePort, serverScript } from "./dev-server.js";
import { waitFor } from "../../support/wait-for.js";

let gatewayFixture: BackgroundGateway;
beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.started();
});
afterAll(() => gatewayFixture[Symbol.asyncDispose]());

function serve(port: number, ...command: readonly string[]): readonly string[] {
  return ["run", "--service", "--port", String(port), "--grace", "200ms", "--", ...command];
}

async function health(wanted: string): Promise<Pick<PsRow, "health" | "ports">> {
  const rows = await gatewayFixture.json<PsRow[]>("ps");
  const { health: state = null, ports = [] } = rows.find(({ runId }) => runId === wanted) ?? {};
  return { health: state, ports };
}

/** Each test starts several programs. */
vi.setConfig({ testTimeout: 60_000 });

describe("holdfast run --service --port", () => {
  test("prints id and port when it listens, and survives a killed gateway", async () => {
    const port = await freePort();
    const { code, stdout } = await gatewayFixture.holdfast(
      ...serve(port, process.execPath, serverScript, String(port)),
    );
    expect(code).toBe(0);
    const [, runId = ""] = /^(run_\w{12}) (\d+)\n$/.exec(stdout) ?? [];
    expect(stdout).toBe(`${runId} ${port}\n`);
    const pid = await answeringPid(port);
    const record = await gatewayFixture.record(runId);
    expect(record).toMatchObject({ kind: "service", service: { port }, root: { pid } });
    expect(record.service?.readyAt).toBeGreaterThanOrEqual(record.startedAt ?? Infinity);
    expect((await gatewayFixture.events(runId)).find(({ type }) => type === "ready")?.data).toEqual({ port });

    const gateway = await gatewayFixture.status();
    process.kill(gateway.pid, "SIGKILL");
    expect(await answeringPid(port)).toBe(pid);
    await startGateway(gatewayFixture.home, cliPath);
    expect(await answeringPid(port)).toBe(pid);
    expect(await gatewayFixture.record(runId)).toMatchObject({
      state: "running",
      ownerInstanceId: gateway.instanceId,
      service: record.service,
      root: record.root,
    });
    expect(await health(runId)).toEqual({ health: "ready", ports: [port] });

    expect(await answeringPid(port, "/deaf")).toBe(pid);
    await waitFor("it is deaf", async () => (await answeringPid(port)) === null);
    expect(await health(runId)).toEqual({ health: "not listening", ports: [] });
    const { stdout: shown } = await gatewayFixture.holdfast("runs", "show", runId);
    expect(shown).toMatch(new RegExp(`service +port ${port}; first ready .*; not listening`));
    expect((await gatewayFixture.holdfast("service", "stop", runId)).code).toBe(0);
    expect(await gatewayFixture.membersOf(runId)).toEqual([]);
  });

  test("a grandchild in its own session may be the listener", async () => {
    const port = await freePort();
    const script = `sh -c 'setsid "${process.execPath}" "${serverScript}" ${port} 200; true' & wait`;
    const { code, stdout } = await gatewayFixture.holdfast(...serve(port, "sh", "-c", script));
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(` ${port}\n$`) as string });
    const runId = stdout.split(" ")[0] ?? "";
    expect((await gatewayFixture.record(runId)).root?.pid).not.toBe(await answeringPid(port));
    await gatewayFixture.holdfast("service", "stop", runId);
  });

  test("another process on the port is named and does not count, and the service is stopped at the timeout", async () => {
    const stranger = createServer().listen(0, "127.0.0.1");
    await once(stranger, "listening");
    const { port } = stranger.address() as { port: number };
    const flags = ["--ready-timeout", "300ms", ...serve(port, "sleep", "7100").slice(1)];
    const { code, stdout, stderr } = await gatewayFixture.holdfast("run", ...flags);
    expect({ code, stdout }).toEqual({ code: 124, stdout: "" });
    expect(stderr).toMatch(new RegExp(`port ${port} is used by process ${process.pid} \\(`));
    const runId = /run_\w{12}/.exec(stderr)?.[0] ?? "";
    expect(await gatewayFixture.record(runId)).toMatchObject({
      state: "exited",
      exit: { reason: "overall-timeout", actor: "operator (not ready in time)" },
      service: { port, readyAt: null },
    });
    expect(stranger.listening).toBe(true);
    stranger.close();
  });

  test("a service that ends early returns its own code, and exit 0 is a failure", async () => {
    const port = await freePort();
    const failed = await gatewayFixture.holdfast(...serve(port, "sh", "-c", "exit 7"));
    expect(failed).toMatchObject({ code: 7, stdout: "" });
    expect(failed.stderr).toContain(`(exit 7) before it listened on port ${port}`);
    expect(await gatewayFixture.holdfast(...serve(port, "true"))).toMatchObject({ code: 1 });
    expect(await gatewayFixture.holdfast(...serve(port, "/no/such"))).toMatchObject({ code: 127 });
  });

  test("Ctrl-C during the wait stops it", async () => {
    const port = await freePort();
    const before = new Set((await gatewayFixture.json<PsRow[]>("ps")).map(({ runId }) => runId));
    const { child, finished } = gatewayFixture.start(...serve(port, "sleep", "7101"));
    let runId = "";
    await waitFor("it runs, and is waited for", async () => {
      const rows = await gatewayFixture.json<PsRow[]>("service", "list");
      const fresh = rows.find((row) => !before.has(row.runId));
      runId = fresh?.runId ?? "";
      return fresh?.health === "starting";
    });
    child.kill("SIGINT");
    expect(await finished).toMatchObject({ code: 130, stdout: "" });
    expect(await gatewayFixture.record(runId)).toMatchObject({
      state: "exited",
      exit: { reason: "manual-cancel" },
    });
  });

  test("without a port there is no wait", async () => {
    const { code, stdout } = await gatewayFixture.holdfast("run", "--service", "--", "sleep", "7102");
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^run_\w{12}\n$/) as string });
    const record = await gatewayFixture.record(stdout.trim());
    expect(record).toMatchObject({ kind: "service", service: { port: null, readyAt: null } });
    await gatewayFixture.holdfast("service", "stop", record.runId, "--grace", "0");
  });

  test.each([
    ["a port without a service", ["--port", "3000"], /add --service/],
    ["a time without a port", ["--service", "--ready-timeout", "3s"], /needs a --port/],
    ["a service with an end", ["--service", "--timeout", "3s"], /no --timeout/],
    ["no port at all", ["--service", "--port", "70000"], /from 1 to 65535/],
  ])("refused: %s", async (_, flags, why) => {
    const { code, stderr } = await gatewayFixture.holdfast("run", ...flags, "--", "sleep", "7103");
    expect(code).toBe(2);
    expect(stderr).toMatch(why);
  });
});

describe("exec of a service over the API", () => {
  test("answers when the service is ready, and keeps it running when the caller disconnects afterwards", async () => {
    const port = await freePort();
    const client = await gatewayFixture.client();
    const argv = [process.execPath, serverScript, String(port)];
    const answer = await client.exec({ body: { argv, kind: "service", port, graceMs: 200 } });
    expect(answer).toMatchObject({ running: true, failure: null, readiness: { state: "ready" } });
    expect(answer.run.service?.readyAt).not.toBeNull();
    const { runId } = answer.run;
    expect(await client.kill({ params: { runId } })).toMatchObject({ outcome: "gone" });
  });

  test("a caller that disconnects before ends the service; a port is for services only", async () => {
    const port = await freePort();
    const client = await gatewayFixture.client();
    const leaving = new AbortController();
    const argv = ["sleep", "7104"];
    const asked = client.exec({ body: { argv, kind: "service", port, graceMs: 200 } }, leaving.signal);
    asked.catch(() => {});
    const mine = async () =>
      (await client.listRuns({ query: { all: "1" } })).runs.find(({ command }) => command === "sleep 7104");
    await waitFor("it runs", async () => (await mine())?.state === "running");
    leaving.abort();
    await waitFor("it was stopped", async () => (await mine())?.state === "exited");
    expect((await mine())?.exit).toMatchObject({ reason: "manual-cancel", actor: "operator (left)" });
    await expect(client.exec({ body: { argv, port } })).rejects.toMatchObject({ code: "BAD_INPUT" });
  });
});

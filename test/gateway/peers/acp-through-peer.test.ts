import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient, followNdjson } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import {
  type ClusterGateway,
  GatewayCluster,
  onOtherHost,
  OTHER_HOST,
} from "../../support/gateway/gateway-cluster.js";
import { errorOf, waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const LONG = { timeout: 240_000 };
const cwd = process.cwd();
type Update = ResponseOf<"acpWatch">["updates"][number];

describe.skipIf(whyNoPostgres !== null)("an ACP session of another gateway", LONG, () => {
  let cluster: GatewayCluster;
  let here: ClusterGateway;
  let there: ClusterGateway;
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
    [here, there] = await Promise.all([cluster.startGateway(), cluster.startGateway()]);
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  const spawn = async ({ client }: Pick<ClusterGateway, "client">, key: string, ...offers: string[]) =>
    (await client.acpSpawn({ body: { argv: shellAgent(...offers), cwd, key } })).session;
  const texts = (updates: readonly Update[]): string =>
    updates
      .map(({ data }) => data as { sessionUpdate?: string; content?: { text: string } })
      .filter(({ sessionUpdate }) => sessionUpdate === "agent_message_chunk")
      .map(({ content }) => content?.text)
      .join("");

  test("is prompted, shown, followed, answered, cancelled and closed through this gateway", async () => {
    const params = { id: "far" };
    const session = await spawn(there, "far");
    const heard: Update[] = [];
    const following = (async () => {
      for await (const update of followNdjson<Update>(here, "/v1/acp/sessions/far/updates?follow=1"))
        heard.push(update);
    })();
    const { turn } = await here.client.acpPrompt({ params, body: { text: "echo hello" } });
    expect(turn).toMatchObject({ outcome: "completed", text: "hello\n", askedBy: "operator" });
    const { tree, session: shown } = await here.client.acpShow({ params });
    expect(tree.verified).toBe(true);
    expect(shown.gatewayInstanceId).toBe(there.gateway.instanceId);

    const asking = here.client.acpPrompt({ params, body: { text: "ask echo allowed" } });
    let id = "";
    await waitFor("it asks", async () => {
      const { permissions } = await here.client.acpPermissions({ query: { session: "far" } });
      id = permissions[0]?.id ?? "";
      return id !== "";
    });
    const answer = await here.client.acpAnswer({ params: { id }, body: { verdict: "allow" } });
    expect(answer.decided).toBe(true);
    expect((await asking).turn.text).toContain("allowed");

    const slow = await here.client.acpPrompt({ params, body: { text: "echo on; sleep 3108", wait: false } });
    await waitFor("it is on", () => texts(heard).includes("on\n"));
    const cancelled = await here.client.acpCancel({ params, body: { reapTools: true } });
    expect(cancelled.turn).toMatchObject({ turnId: slow.turn.turnId, outcome: "cancelled" });

    const closed = await here.client.acpClose({ params });
    expect(closed).toMatchObject({ session: { state: "closed" }, survivors: [], emptiness: "proven" });
    await following;
    expect(heard.map(({ seq }) => seq)).toEqual(heard.map((_, at) => at + 1));
    expect(heard.at(-1)).toMatchObject({ type: "session", data: { state: "closed" } });
    expect(await findProcessesOfRun(session.runId ?? "")).toEqual([]);
  });

  test("is hidden on both gateways from a session that may not see it", async () => {
    const session = await spawn(there, "hidden");
    const { token } = await here.client.openSession({ body: { key: "stranger" } });
    const stranger = createClient({ socketPath: here.socketPath, token });
    const ask = (id: string) => errorOf(stranger.acpPrompt({ params: { id }, body: { text: "x" } }));
    const denied = await ask(session.sessionId);
    expect(denied.code).toBe("NOT_FOUND");
    expect(denied.message.replace(session.sessionId, "it")).toBe(
      (await ask("ses_000000000000")).message.replace("ses_000000000000", "it"),
    );
    const { token: own } = await here.client.openSession({
      body: { key: "child", parentSessionKey: "hidden" },
    });
    const child = createClient({ socketPath: here.socketPath, token: own });
    expect((await errorOf(child.acpClose({ params: { id: "hidden" } }))).code).toBe("NOT_FOUND");
    await here.client.closeSession({ params: { id: session.sessionId } });
    expect(await waitForRunEnd(here.client, session.runId ?? "")).toMatchObject({ emptiness: "proven" });
  });

  test("gets messages that were sent through this gateway", async () => {
    await spawn(there, "listener", "echo");
    const params = { id: "listener" };
    const { message } = await here.client.sendMessage({ params, body: { text: "from afar" } });
    await waitFor("it has answered", async () => {
      const { messages } = await here.client.sessionHistory({ params });
      return messages.some(({ id, deliveredAt }) => id === message.id && deliveredAt !== null);
    });
    const { turns } = await here.client.sessionHistory({ params });
    expect(turns).toMatchObject([{ text: "Message from the operator:\n> from afar" }]);
    await here.client.acpClose({ params });
  });

  test("whose gateway cannot be reached is not changed, and shown as stored", async () => {
    const deaf = await cluster.startGateway("");
    const session = await spawn(deaf, "deaf");
    const params = { id: "deaf" };
    for (const act of [
      () => here.client.acpPrompt({ params, body: { text: "x" } }),
      () => here.client.acpCancel({ params, body: {} }),
      () => here.client.acpClose({ params }),
      () => here.client.closeSession({ params: { id: session.sessionId } }),
    ]) {
      const refused = await errorOf(act());
      expect(refused.code).toBe("ACP_NOT_HELD");
      expect(refused.message).toContain(`belongs to gateway ${deaf.gateway.instanceId}, on host`);
      expect(refused.message).toMatch(/on host \S+, which cannot be reached: it does not listen/);
    }
    expect(
      (await errorOf(here.client.acpSpawn({ body: { argv: shellAgent(), cwd, key: "deaf" } }))).message,
    ).toMatch(/on host \S+\. Neither/);
    const shown = await here.client.acpShow({ params });
    expect(shown).toMatchObject({ session: { state: "ready" }, tree: { verified: false } });
    await deaf.client.acpClose({ params });
  });

  test("whose host is gone is closed in the store when its run was forgotten, and no process is signalled", async () => {
    const home = await cluster.newHome();
    const far = await cluster.spawnGateway(home, await onOtherHost(home));
    const session = await spawn(far, "gone");
    const runId = session.runId ?? "";
    const params = { id: "gone" };
    await far.client.acpPrompt({ params, body: { text: "sleep 3109", wait: false } });
    const queued = await far.client.acpPrompt({ params, body: { text: "echo never", wait: false } });
    await waitFor("it works", async () => (await far.client.acpShow({ params })).tree.processes.length > 1);
    await far.kill();
    const living = await findProcessesOfRun(runId);
    expect((await errorOf(here.client.acpClose({ params }))).message).toMatch(
      new RegExp(`on host ${OTHER_HOST}, which cannot be reached: .*holdfast runs forget ${runId}`),
    );
    await cluster.database.query(
      `update holdfast.gateways set heartbeat_at = heartbeat_at - 40000 where host_name = '${OTHER_HOST}'`,
    );
    await cluster.database.query(
      `update holdfast.runs set lease_expires_at = lease_expires_at - 40000 where run_id = '${runId}'`,
    );
    expect((await errorOf(here.client.acpClose({ params }))).code).toBe("ACP_NOT_HELD");
    await promisify(execFile)(process.execPath, [cliPath, "runs", "forget", runId, "--yes"], {
      env: { ...process.env, HOLDFAST_HOME: here.home },
    });
    const closed = await here.client.acpClose({ params });
    expect(closed).toMatchObject({ session: { state: "closed" }, survivors: [], emptiness: "unproven" });
    // The agent may have started another process meanwhile.
    expect(await findProcessesOfRun(runId)).toEqual(expect.arrayContaining(living));
    const { turns } = await here.client.acpHistory({ params: { id: session.sessionId } });
    expect(turns.map(({ turnId, outcome }) => [turnId === queued.turn.turnId, outcome])).toEqual([
      [true, "cancelled"],
      [false, "interrupted"],
    ]);
    const { session: row } = await here.client.sessionStatus({ params: { id: session.sessionId } });
    expect(row.closedAt).not.toBeNull();
    // Should it come back, it ends what is left.
    const back = await cluster.spawnGateway(home, await onOtherHost(home));
    await waitFor("nothing is left", async () => (await findProcessesOfRun(runId)).length === 0);
    await back.kill("SIGTERM");
  });
});

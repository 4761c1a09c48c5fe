import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runChecks } from "../../../src/gateway/doctor/run-checks.js";
import { errorOf, gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();

test("the gateway makes the checks of the command, and changes nothing", async () => {
  await fixture.client.exec({ body: { ...shellCommand("sleep 3600"), background: true } });
  const { events: before } = await fixture.client.events({ query: { limit: 1_000 } });
  const id = await readFile(join(fixture.home, "gateway-id"), "utf8").catch(() => null);
  // Requests at the same time share one diagnosis.
  const [answer, other] = await Promise.all([fixture.client.doctor(), fixture.client.doctor()]);
  expect(other).toEqual(answer);
  const { checks } = await runChecks(fixture.home);
  expect(answer.checks.map(({ name }) => name)).toEqual(checks.map(({ name }) => name));
  expect(answer.ok).toBe(answer.checks.every(({ state }) => state !== "bad"));
  const runs = answer.checks.find(({ name }) => name === "runs");
  expect(runs).toMatchObject({ state: "ok", detail: expect.stringContaining("1 open, 1 with an owner") });
  expect((await fixture.client.events({ query: { limit: 1_000 } })).events).toEqual(before);
  expect(await readFile(join(fixture.home, "gateway-id"), "utf8").catch(() => null)).toBe(id);
});

test("a session may not see the operator's doctor", async () => {
  const { token } = await fixture.client.openSession({ body: { key: "curious" } });
  // As if there were no such route.
  expect(await errorOf(fixture.as(token).doctor())).toEqual({
    code: "NOT_FOUND",
    message: "there is no GET /v1/doctor",
  });
});

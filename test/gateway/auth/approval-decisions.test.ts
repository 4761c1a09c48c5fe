import { expect, test } from "vitest";
import { gatewayForFile, errorOf, outputText } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();

async function session(key: string) {
  const { token, session: row } = await fixture.client.openSession({ body: { key, execRules: [] } });
  return { client: fixture.as(token), token, id: row.id };
}

async function pending(id: string) {
  const { approvals } = await fixture.client.listApprovals();
  return approvals.find(({ sessionId }) => sessionId === id);
}

test("an approval waits until the operator allows it", async () => {
  const { client, id } = await session("asking");
  const answer = client.exec({ body: { argv: ["echo", "allowed"] } });
  await waitFor("it is asked", async () => (await pending(id)) !== undefined);
  const question = await pending(id);
  expect(question).toMatchObject({ command: "/usr/bin/echo allowed", decision: null });
  const params = { id: question?.id ?? "" };
  const decided = await fixture.client.decideApproval({ params, body: { verdict: "allow" } });
  expect(decided).toMatchObject({
    decided: true,
    approval: { decision: { verdict: "allow", actor: "operator" } },
  });
  expect(outputText(await answer)).toBe("allowed\n");
  expect(await fixture.client.decideApproval({ params, body: { verdict: "deny" } })).toMatchObject({
    decided: false,
    approval: { decision: { verdict: "allow" } },
  });
});

test("an approval can be denied", async () => {
  const { client, id } = await session("asking-in-vain");
  const answer = errorOf(client.exec({ body: { argv: ["true"] } }));
  await waitFor("it is asked", async () => (await pending(id)) !== undefined);
  const params = { id: (await pending(id))?.id ?? "" };
  await fixture.client.decideApproval({ params, body: { verdict: "deny" } });
  expect(await answer).toMatchObject({
    code: "EXEC_DENIED",
    message: expect.stringContaining("operator denied it"),
  });
  expect((await client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
});

test("an approval expires when its caller disconnects and can no longer be allowed", async () => {
  const { client, id } = await session("impatient");
  const left = new AbortController();
  const answer = client.exec({ body: { argv: ["true"] } }, left.signal).catch(() => "left");
  await waitFor("it is asked", async () => (await pending(id)) !== undefined);
  const params = { id: (await pending(id))?.id ?? "" };
  left.abort();
  expect(await answer).toBe("left");
  await waitFor("it has expired", async () => (await pending(id)) === undefined);
  expect(await fixture.client.decideApproval({ params, body: { verdict: "allow" } })).toMatchObject({
    decided: false,
    approval: { decision: { verdict: "expired", actor: "caller gone" } },
  });
  expect((await client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
});

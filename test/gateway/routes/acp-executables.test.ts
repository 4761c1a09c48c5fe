import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";

/** `real`: where an agent's program lies. `own`: where a session has another one of that name. */
const cwd = await mkdtemp(join(tmpdir(), "hf-programs-"));
const [real, own] = [join(cwd, "real"), join(cwd, "own")];
for (const [place, program] of [
  [real, process.execPath],
  [own, "/bin/true"],
] as const) {
  await mkdir(place);
  await symlink(program, join(place, "mine"));
}
afterAll(() => rm(cwd, { recursive: true }));

const [, script = ""] = shellAgent();
const fixture = gatewayForFile({
  config: parseConfig(
    `[agents.mine]
env = { PATH = "${real}:/usr/bin:/bin", NODE_OPTIONS = "--no-warnings" }
acp = { argv = ["mine", ${JSON.stringify(script)}] }
`,
    "",
  ),
});

test("a session's rules judge the program that the agent's PATH finds", async () => {
  const { token } = await fixture.client.openSession({
    body: { key: "bound", execRules: [{ effect: "allow", executable: "true" }, { effect: "deny" }] },
  });
  const body = { agent: "mine", cwd, environment: { PATH: own } };
  expect(await errorOf(fixture.as(token).acpSpawn({ body }))).toMatchObject({ code: "EXEC_DENIED" });
  expect((await fixture.client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
});

test("a program found by a session's own PATH is not started again by another PATH", async () => {
  const { token } = await fixture.client.openSession({
    body: { key: "free", execRules: [{ effect: "allow" }] },
  });
  const environment = { PATH: `${real}:/usr/bin:/bin` };
  await using store = await openSqliteStore({ path: join(fixture.home, "store.sqlite") });
  for (const [program, kept] of [
    ["mine", null],
    [join(real, "mine"), [join(real, "mine"), script]],
  ] as const) {
    const body = { argv: [program, script], cwd, environment };
    const { session } = await fixture.as(token).acpSpawn({ body });
    expect(await store.getAcpSession(session.sessionId)).toMatchObject({ argv: kept });
    await fixture.client.acpClose({ params: { id: session.sessionId } });
  }
});

test("an agent has the variables of its entry", async () => {
  const body = { agent: "mine", cwd, key: "operator's", prompt: "echo $NODE_OPTIONS", wait: true };
  const { turn } = await fixture.client.acpSpawn({ body });
  expect(turn?.text).toContain("--no-warnings");
  await fixture.client.acpClose({ params: { id: "operator's" } });
});

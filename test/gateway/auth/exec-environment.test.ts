import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { errorOf, outputText } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";
import { allow, gatewayWithPlantedPrograms, type Rules } from "./exec-rules-fixture.js";

const { operator, planted, canary, touch, ownPath, fixture, session, nothingRan } =
  await gatewayWithPlantedPrograms();

describe("the environment of a judged command", () => {
  const printed = async (client: Awaited<ReturnType<typeof session>>["client"], body: object = {}) => {
    const answer = await client.exec({ body: { argv: ["env"], ...body } });
    return new Map(
      outputText(answer)
        .split("\n")
        .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)] as const),
    );
  };

  test("has the variables that the config lists, and no secrets of the gateway", async () => {
    process.env["HOLDFAST_DATABASE_URL"] = "postgres://hush-database@example.invalid/x";
    try {
      for (const rules of [allow("env"), [{ effect: "allow" }] satisfies Rules]) {
        const { client } = await session(rules);
        const environment = await printed(client);
        expect(JSON.stringify([...environment])).not.toMatch(/hush-(?:own|mine|hook|database)/);
        expect(JSON.stringify([...environment])).not.toContain(fixture.token);
        expect(environment.get("LISTED_KEY")).toBe("hush-listed");
        expect(environment.get("PATH")).toBe(process.env["PATH"]);
        expect(environment.get("HOME")).toBe(process.env["HOME"]);
      }
      const { key } = await session([{ effect: "allow" }]);
      const byOperator = await printed(fixture.client, { sessionKey: key });
      expect(JSON.stringify([...byOperator])).not.toContain("hush-own");
    } finally {
      delete process.env["HOLDFAST_DATABASE_URL"];
    }
  });

  test("has listed variables of the caller, and leaves out those of its shell without a message", async () => {
    const { client } = await session(allow("env"));
    const listed = {
      LANG: "de_DE.UTF-8",
      LC_TIME: "C",
      TZ: "Europe/Berlin",
      TERM: "dumb",
      NO_COLOR: "1",
      LISTED_KEY: "the caller's",
    };
    const shells = {
      PWD: "/",
      OLDPWD: "/",
      SHLVL: "2",
      _: "/usr/bin/env",
      TMPDIR: planted,
      HOLDFAST_HOME: planted,
    };
    const environment = await printed(client, { environment: { ...listed, ...shells } });
    for (const [name, value] of Object.entries(listed))
      expect([name, environment.get(name)]).toEqual([name, value]);
    for (const [name, value] of Object.entries(shells))
      expect([name, environment.get(name)]).not.toEqual([name, value]);
  });

  test("has an unlisted variable if the operator allows it; the question names it", async () => {
    const { client, id } = await session([{ effect: "ask", executable: "env" }, { effect: "deny" }]);
    const answer = printed(client, {
      environment: { UNLISTED: "one", LANG: "C" },
      env: { LD_DEBUG: "none" },
    });
    const pending = async () =>
      (await fixture.client.listApprovals()).approvals.find(({ sessionId }) => sessionId === id);
    await waitFor("it is asked", async () => (await pending()) !== undefined);
    const question = await pending();
    const params = { id: question?.id ?? "" };
    const { parts, digest } = await fixture.client.showApproval({ params });
    const unlisted = "not in the session's list of allowed variables";
    expect(parts).toMatchObject([
      { label: "program", text: "/usr/bin/env", note: null },
      { label: "argv[0]", text: "/usr/bin/env" },
      { label: "cwd" },
      { label: "env LANG", text: "C", note: null },
      { label: "env LD_DEBUG", text: "none", note: unlisted },
      { label: "env UNLISTED", text: "one", note: unlisted },
    ]);
    const body = { verdict: "allow" as const, digest: digest ?? "" };
    await fixture.client.decideApproval({ params, body });
    const environment = await answer;
    expect([environment.get("UNLISTED"), environment.get("LD_DEBUG")]).toEqual(["one", "none"]);
  });
});

describe("agents that a session starts", () => {
  test("agent run: the operator's program, the entry's variables, and nothing that is not listed", async () => {
    const { client } = await session(allow("helper"));
    const params = { id: "helper" };
    for (const environment of [
      { PATH: planted },
      { PATH: process.env["PATH"] ?? "", GIT_SSH_COMMAND: touch },
    ])
      expect((await errorOf(client.runAgent({ params, body: { prompt: "x", environment } }))).code).toBe(
        "EXEC_DENIED",
      );
    await nothingRan(client);
    const { result } = await client.runAgent({
      params,
      body: { prompt: "x", yieldMs: 20_000, cwd: planted },
    });
    expect(result?.text.trim()).toBe(`the operator's: ${join(operator, "helper")}  hush-mine`);
    expect(existsSync(canary)).toBe(false);
  });

  test("agents check: nothing on the session's PATH is searched or executed", async () => {
    const { client } = await session(allow("helper", "--version"));
    const { checks } = await client
      .checkAgent({ params: { id: "helper" }, body: { environment: { PATH: ownPath } } })
      .catch(() => client.checkAgent({ params: { id: "helper" } }));
    expect(checks).toMatchObject([{ executable: join(operator, "helper") }]);
    expect(existsSync(canary)).toBe(false);
  });

  test("acp spawn: the same, and the agent gets no secrets of the gateway", async () => {
    const { client } = await session(allow("node", "..."));
    const body = { agent: "shell", cwd: planted };
    for (const environment of [{ PATH: planted }, { NODE_OPTIONS: `--require ${join(planted, "code.cjs")}` }])
      expect((await errorOf(client.acpSpawn({ body: { ...body, environment } }))).code).toBe("EXEC_DENIED");
    expect(existsSync(canary)).toBe(false);
    for (const who of [client, fixture.client]) {
      const key = `agent ${Math.random()}`;
      const prompt = "echo [$OWN_SECRET] [$MINE_KEY] [$HOOK_SECRET]; helper; date > /dev/null";
      const { turn } = await who.acpSpawn({ body: { ...body, key, prompt, wait: true } });
      expect(turn?.text).toContain("[] [hush-mine] []");
      expect(turn?.text).toContain("the operator's:");
      await fixture.client.acpClose({ params: { id: key } });
    }
    expect(existsSync(canary)).toBe(false);
  });

  test("a session of its own is under the same rules", async () => {
    const { client } = await session(allow("helper"));
    const { session: child } = await client.runAgent({
      params: { id: "helper" },
      body: { prompt: "x", yieldMs: 20_000 },
    });
    const { token } = await fixture.client.openSession({ body: { key: child.key } });
    const asking = fixture.as(token).exec({ body: { argv: ["helper"], env: { PATH: planted } } });
    expect((await errorOf(asking)).code).toBe("EXEC_DENIED");
    expect(existsSync(canary)).toBe(false);
  });
});

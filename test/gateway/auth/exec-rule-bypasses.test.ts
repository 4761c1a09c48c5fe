import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import type { RequestOf } from "../../../src/api/contract.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { gatewayForFile, errorOf, outputText } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

/**
 * `operator`: a directory of the operator's PATH. `planted`: a directory that the session controls.
 * `canary`: is created when a command runs a program that no rule allows.
 */
const work = await mkdtemp(join(tmpdir(), "hf-bypass-"));
const [operator, planted, repository] = ["operator", "planted", "repository"].map((name) =>
  join(work, name),
) as [string, string, string];
const canary = join(work, "canary");
const touch = `/usr/bin/touch ${canary}`;
for (const directory of [operator, planted, repository]) await mkdir(directory);

async function program(path: string, script: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
}

await program(join(operator, "helper"), 'echo "the operator\'s: $0 $OWN_SECRET $MINE_KEY"; date >/dev/null');
await program(join(operator, "lister"), "env");
for (const name of ["helper", "git", "date", "evil"]) await program(join(planted, name), touch);
await writeFile(join(repository, "Makefile"), "all:\n\t@echo made\n");
await writeFile(join(planted, "code.cjs"), `require("node:fs").writeFileSync(${JSON.stringify(canary)}, "")`);
await writeFile(join(planted, ".gitconfig"), `[core]\n\tfsmonitor = "${touch}; false"\n`);
execFileSync("git", ["init", "--quiet", repository]);

const ownPath = process.env["PATH"] ?? "";
process.env["PATH"] = [operator, ownPath].join(delimiter);
// Variables of the gateway only: its store, its channels, and unrelated ones.
const own = {
  OWN_SECRET: "hush-own",
  MINE_KEY: "hush-mine",
  LISTED_KEY: "hush-listed",
  HOOK_SECRET: "hush-hook",
};
Object.assign(process.env, own);
afterAll(async () => {
  process.env["PATH"] = ownPath;
  for (const name of Object.keys(own)) delete process.env[name];
  await rm(work, { recursive: true });
});

beforeEach(() => rm(canary, { force: true }));

const config = `
[environment]
pass = ["LISTED_KEY"]
[agents.helper]
passEnv = ["MINE_KEY"]
cli = { argv = ["helper"] }
[agents.shell]
passEnv = ["MINE_KEY"]
acp = { argv = ${JSON.stringify(shellAgent())} }
[channels.ops]
kind = "webhook"
url = "https://example.com/"
secrets = [{ env = "HOOK_SECRET" }]
`;
const fixture = gatewayForFile({ config: parseConfig(config, "") });
type Rules = NonNullable<RequestOf<"openSession">["body"]["execRules"]>;

async function session(execRules: Rules) {
  const key = `s${Math.random()}`;
  const { token, session: row } = await fixture.client.openSession({ body: { key, execRules } });
  return { client: fixture.as(token), id: row.id, key };
}

function allow(executable: string, ...args: string[]): Rules {
  return [{ effect: "allow", executable, ...(args.length === 0 ? {} : { args }) }, { effect: "deny" }];
}

/** No command of the session has run, and no program that no rule allows. */
async function nothingRan(client: Awaited<ReturnType<typeof session>>["client"]): Promise<void> {
  expect(existsSync(canary), "the canary").toBe(false);
  expect((await client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
}

/** A command that a rule allows, and variables that make it run something else. */
const bypasses: readonly (readonly [
  argv: readonly [string, ...string[]],
  variables: Record<string, string>,
])[] = [
  [
    ["git", "status"],
    { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "core.fsmonitor", GIT_CONFIG_VALUE_0: `${touch}; false` },
  ],
  [["git", "status"], { HOME: planted }],
  [["git", "ls-remote", "ssh://example.invalid/x"], { GIT_SSH_COMMAND: `${touch}; false` }],
  [["git", "config", "--edit"], { EDITOR: `${touch}; true` }],
  [["tar", "cf", "/dev/null", "Makefile"], { TAR_OPTIONS: `-I ${join(planted, "evil")}` }],
  [["less", "Makefile"], { LESSOPEN: `||${touch} %s` }],
  [["date"], { PATH: planted }],
  [["helper"], { PATH: [planted, ownPath].join(delimiter) }],
  [["perl", "-e", "1"], { PERL5DB: `BEGIN { system "${touch}" }`, PERL5OPT: "-d" }],
  [["bash", "-c", "true"], { BASH_ENV: join(planted, "evil") }],
  [["bash", "-c", "true"], { "BASH_FUNC_true%%": `() { ${touch}; }` }],
  [["node", "-e", "1"], { NODE_OPTIONS: `--require ${join(planted, "code.cjs")}` }],
];
/** Variables of the same kind, whose effect needs a library, a bug or a program that not every machine has. */
const unseen: typeof bypasses = [
  [["make", "-n"], { MAKEFLAGS: `--eval=$(shell ${touch})` }],
  [["true"], { LD_PRELOAD: join(planted, "evil.so") }],
  [["true"], { PYTHONPATH: planted, PYTHONSTARTUP: join(planted, "evil") }],
  [["ls", "-l"], { TZ: "/dev/zero" }],
  [["ls"], { LC_ALL: "../../planted" }],
  [["ls"], { HOLDFAST_ANCHOR: join(planted, "evil"), "A\u001B[2J": "x" }],
];

test.each(bypasses)(
  "%o runs another program with %o if the operator allows that",
  async (argv, variables) => {
    const body = { argv: [...argv], cwd: repository, env: variables, allowEnv: Object.keys(variables) };
    await fixture.client.exec({ body });
    expect(existsSync(canary)).toBe(true);
  },
);

describe.each([...bypasses, ...unseen])("%o is allowed, %o is not:", (argv, variables) => {
  test.each(["environment", "env"] as const)("refused by name in `%s`, and nothing runs", async (field) => {
    const { client } = await session(allow(...argv));
    const whole =
      field === "environment"
        ? { environment: { ...process.env, ...variables } as never }
        : { env: variables };
    const body = { argv: [...argv], cwd: repository, ...whole, allowEnv: Object.keys(variables) };
    const { code, message } = await errorOf(client.exec({ body }));
    expect(code).toBe("EXEC_DENIED");
    const set = Object.keys(variables).filter((name) => field === "env" || !name.startsWith("HOLDFAST_"));
    for (const name of set) expect(message).toContain(name.replace("\u001B", "\\u001b"));
    expect(message).not.toContain("\u001B");
    expect(message).toContain("environment.pass");
    await nothingRan(client);
  });
});

describe("the program of a rule", () => {
  test.each<[string, readonly string[], object]>([
    ["a relative path", ["./git"], { cwd: planted }],
    ["a longer relative path", ["planted/git"], { cwd: work }],
    ["an absolute path elsewhere", [join(planted, "git")], {}],
    ["a PATH of its own", ["git"], { environment: { PATH: planted } }],
    ["the current directory in a PATH of its own", ["git"], { cwd: planted, env: { PATH: `:${ownPath}` } }],
  ])("a rule with a file name does not mean %s", async (_, argv, more) => {
    const { client } = await session(allow("git"));
    expect((await errorOf(client.exec({ body: { argv: [...argv], ...more } }))).code).toBe("EXEC_DENIED");
    await nothingRan(client);
  });

  test("a name and its path on the operator's PATH are the same program, and that path is executed", async () => {
    const { client } = await session(allow("helper"));
    for (const name of ["helper", join(operator, "helper")]) {
      const answer = await client.exec({ body: { argv: [name], cwd: planted } });
      expect(outputText(answer)).toContain(`the operator's: ${join(operator, "helper")}`);
      expect(answer.run.command).toBe(join(operator, "helper"));
    }
    expect(existsSync(canary)).toBe(false);
  });

  test("a rule with a path applies to this path, also through links of its directory", async () => {
    const link = join(work, "link");
    await symlink(operator, link);
    for (const place of [operator, link]) {
      const { client } = await session(allow(join(place, "helper")));
      for (const name of ["helper", join(operator, "helper"), join(link, "helper")])
        expect(await client.exec({ body: { argv: [name] } })).toMatchObject({ failure: null });
      expect(await errorOf(client.exec({ body: { argv: [join(planted, "helper")] } }))).toMatchObject({
        code: "EXEC_DENIED",
      });
    }
    await rm(link);
  });

  test("another name of the same file is another program, unless the rule gives argv0", async () => {
    const other = join(operator, "other");
    await symlink("/bin/sh", other);
    const { client } = await session(allow("other", "-c", "..."));
    expect(await client.exec({ body: { argv: ["other", "-c", "true"] } })).toMatchObject({ failure: null });
    expect((await errorOf(client.exec({ body: { argv: ["sh", "-c", touch] } }))).code).toBe("EXEC_DENIED");
    const real = execFileSync("realpath", ["/bin/sh"], { encoding: "utf8" }).trim();
    const called = await session([
      { effect: "allow", executable: real, calledAs: "other" },
      { effect: "deny" },
    ]);
    expect(await called.client.exec({ body: { argv: ["other", "-c", "true"] } })).toMatchObject({
      failure: null,
    });
    expect((await errorOf(called.client.exec({ body: { argv: ["sh", "-c", touch] } }))).code).toBe(
      "EXEC_DENIED",
    );
    expect(existsSync(canary)).toBe(false);
    await rm(other);
  });

  test("a deny rule applies to the file by every name and link", async () => {
    const { client } = await session([{ effect: "deny", executable: "touch" }, { effect: "allow" }]);
    await symlink("/usr/bin/touch", join(planted, "innocent"));
    for (const name of ["touch", "/usr/bin/touch", join(planted, "innocent"), "./innocent"])
      expect((await errorOf(client.exec({ body: { argv: [name, canary], cwd: planted } }))).code).toBe(
        "EXEC_DENIED",
      );
    await nothingRan(client);
  });

  test.each([
    ["file", 0o755, 0o777],
    ["directory", 0o777, 0o755],
  ])("a %s that other users may write is allowed by no rule", async (what, directoryMode, fileMode) => {
    const open = join(work, `open-${what}`);
    await mkdir(open);
    await program(join(open, "tool"), touch);
    await chmod(join(open, "tool"), fileMode);
    await chmod(open, directoryMode);
    const { client } = await session(allow(join(open, "tool")));
    const { code, message } = await errorOf(client.exec({ body: { argv: [join(open, "tool")] } }));
    expect(code).toBe("EXEC_DENIED");
    expect(message).toContain("other users can write");
    await nothingRan(client);
  });
});

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

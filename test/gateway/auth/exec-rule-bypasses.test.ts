import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, rm, symlink } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { describe, expect, test } from "vitest";
import { errorOf, outputText } from "../../support/gateway/real-gateway.js";
import { allow, gatewayWithPlantedPrograms, writeProgram } from "./exec-rules-fixture.js";

const { work, operator, planted, repository, canary, touch, ownPath, fixture, session, nothingRan } =
  await gatewayWithPlantedPrograms();

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
    await writeProgram(join(open, "tool"), touch);
    await chmod(join(open, "tool"), fileMode);
    await chmod(open, directoryMode);
    const { client } = await session(allow(join(open, "tool")));
    const { code, message } = await errorOf(client.exec({ body: { argv: [join(open, "tool")] } }));
    expect(code).toBe("EXEC_DENIED");
    expect(message).toContain("other users can write");
    await nothingRan(client);
  });
});

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeEach, expect } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { RequestOf } from "../../../src/api/contract.js";
import { parseConfig } from "../../../src/config/schema.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";

export type Rules = NonNullable<RequestOf<"openSession">["body"]["execRules"]>;

export async function writeProgram(path: string, script: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
}

export function allow(executable: string, ...args: string[]): Rules {
  return [{ effect: "allow", executable, ...(args.length === 0 ? {} : { args }) }, { effect: "deny" }];
}

/**
 * A gateway with programs of the operator, and with programs of the same names that a session has planted.
 * `operator`: a directory of the operator's PATH. `planted`: a directory that the session controls.
 * `canary`: is created when a command runs a program that no rule allows.
 */
export async function gatewayWithPlantedPrograms() {
  const work = await mkdtemp(join(tmpdir(), "hf-bypass-"));
  const [operator, planted, repository] = ["operator", "planted", "repository"].map((name) =>
    join(work, name),
  ) as [string, string, string];
  const canary = join(work, "canary");
  const touch = `/usr/bin/touch ${canary}`;
  for (const directory of [operator, planted, repository]) await mkdir(directory);

  await writeProgram(
    join(operator, "helper"),
    'echo "the operator\'s: $0 $OWN_SECRET $MINE_KEY"; date >/dev/null',
  );
  await writeProgram(join(operator, "lister"), "env");
  for (const name of ["helper", "git", "date", "evil"]) await writeProgram(join(planted, name), touch);
  await writeFile(join(repository, "Makefile"), "all:\n\t@echo made\n");
  await writeFile(
    join(planted, "code.cjs"),
    `require("node:fs").writeFileSync(${JSON.stringify(canary)}, "")`,
  );
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

  async function session(execRules: Rules) {
    const key = `s${Math.random()}`;
    const { token, session: row } = await fixture.client.openSession({ body: { key, execRules } });
    return { client: fixture.as(token), id: row.id, key };
  }

  /** No command of the session has run, and no program that no rule allows. */
  async function nothingRan(client: GatewayClient): Promise<void> {
    expect(existsSync(canary), "the canary").toBe(false);
    expect((await client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
  }

  return { work, operator, planted, repository, canary, touch, ownPath, fixture, session, nothingRan };
}

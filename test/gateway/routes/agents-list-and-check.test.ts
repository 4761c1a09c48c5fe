import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { parseConfig } from "../../../src/config/schema.js";
import { toCheckResult } from "../../../src/gateway/routes/agents.js";
import { CallerSearchPath } from "../../../src/queries/agents.js";
import { fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";

const work = await mkdtemp(join(tmpdir(), "hf-agents-path-"));
await mkdir(join(work, "bin"));
await writeFile(join(work, "bin", "mine"), "#!/bin/sh\n");
await chmod(join(work, "bin", "mine"), 0o755);
afterAll(() => rm(work, { recursive: true }));

const fixture = gatewayForFile({
  config: parseConfig(`${fakeAgentsConfig}[agents.mine]\ncli = { argv = ["mine"] }\n`, ""),
});

async function listed(path: string): Promise<string | null | undefined> {
  const { agents } = await fixture.client.listAgents({ query: { path } });
  return agents.find(({ id }) => id === "mine")?.cli?.executable;
}

test("the operator's path is searched: only absolute directories that exist", async () => {
  const found = join(work, "bin", "mine");
  expect(await listed(join(work, "bin"))).toBe(found);
  expect(await listed(`:bin:${work}/none:${found}:${work}/bin:${work}/bin`)).toBe(found);
  const before = process.cwd();
  process.chdir(join(work, "bin"));
  try {
    for (const path of ["", ".", ":", "bin"]) expect([path, await listed(path)]).toEqual([path, null]);
  } finally {
    process.chdir(before);
  }
});

test("a session learns nothing about the file system from a path: every path is refused", async () => {
  const { token } = await fixture.client.openSession({
    body: { key: "curious", execRules: [{ effect: "allow" }] },
  });
  const client = fixture.as(token);
  const answers = await Promise.all(
    [join(work, "bin"), `${work}/none`, "", "."].map((path) =>
      errorOf(client.listAgents({ query: { path } })),
    ),
  );
  for (const answer of answers) expect(answer).toEqual({ ...answers[0], code: "BAD_INPUT" });
  const { agents } = await client.listAgents();
  expect(agents.find(({ id }) => id === "mine")?.cli?.executable).toBeNull();
  // The environment of a request does not help: programs are looked up on the gateway's PATH.
  const body = { environment: { PATH: join(work, "bin") } };
  const { checks } = await client.checkAgent({ params: { id: "mine" }, body });
  expect(checks).toMatchObject([{ executable: null, failure: "not-found" }]);
});

test("a path with too many directories or characters is refused", async () => {
  const path = "/:".repeat(defaults.agentPathDirectories);
  expect(await errorOf(fixture.client.listAgents({ query: { path } }))).toMatchObject({
    code: "BAD_INPUT",
  });
  const long = `/${"x".repeat(8_192)}`;
  expect(await errorOf(fixture.client.listAgents({ query: { path: long } }))).toMatchObject({
    code: "BAD_INPUT",
  });
});

test("directories that do not answer block one lookup, and every request is answered in time", async () => {
  const looked: string[] = [];
  let answer = (): void => undefined;
  const hangs = new Promise<boolean>((resolve) => (answer = () => resolve(true)));
  const path = new CallerSearchPath(50, (directory) => {
    looked.push(directory);
    return directory === "/away" ? hangs : Promise.resolve(true);
  });
  const asked = Array.from({ length: defaults.agentPathWaiting + 4 }, (_, at) =>
    errorOf(path.directories(`/here:/away:/never-${at}`)),
  );
  const codes = (await Promise.all(asked)).map(({ code }) => code);
  expect(codes.filter((code) => code === "BAD_INPUT")).toHaveLength(defaults.agentPathWaiting);
  expect(codes.filter((code) => code === "TOO_MANY_REQUESTS")).toHaveLength(4);
  expect(looked).toEqual(["/here", "/away"]);
  answer();
  // Waiting callers are resumed one after the other.
  await new Promise((resolve) => setImmediate(resolve));
  expect(await path.directories("/here:/away:/here")).toEqual(["/here", "/away"]);
  expect(looked.some((directory) => directory.startsWith("/never"))).toBe(false);
});

test("list shows the paths of the commands and executes nothing; check runs them, with a deadline", async () => {
  const before = (await fixture.client.listRuns({ query: { all: "1", limit: 1_000 } })).runs.length;
  const { agents } = await fixture.client.listAgents({ query: { path: "/nowhere" } });
  expect(agents.find(({ id }) => id === "codex")).toMatchObject({
    from: "config",
    acp: null,
    cli: { executable: expect.stringContaining("node") as string, output: "codex", resumes: true },
  });
  expect(agents.find(({ id }) => id === "claude")).toMatchObject({
    from: "built-in",
    acp: { executable: null },
    cli: { executable: null },
    install: expect.any(String) as string,
  });
  expect(JSON.stringify(agents)).not.toContain("sk-of-the-entry");
  const all = await fixture.client.listRuns({ query: { all: "1", limit: 1_000 } });
  expect(all.runs).toHaveLength(before);
  const { checks } = await fixture.client.checkAgent({ params: { id: "codex" } });
  expect(checks).toMatchObject([{ forms: ["cli"], version: "1.2.3", failure: null }]);
  const checked = await fixture.client.getRun({ params: { runId: checks[0]?.runId ?? "" } });
  expect(checked).toMatchObject({ deadlines: { overallMs: 20_000 }, emptiness: "proven" });
  const claude = await fixture.client.checkAgent({
    params: { id: "claude" },
    body: { environment: { PATH: "/nowhere" } },
  });
  expect(claude.checks.map(({ forms, failure }) => [forms, failure])).toEqual([
    [["acp"], "not-found"],
    [["cli"], "not-found"],
  ]);
});

test("a program that prints its version and does not end fails the check", () => {
  const piece = {
    stream: "stdout",
    offset: 0,
    nextOffset: 6,
    text: "1.2.3\n",
    skipped: 0,
    lost: 0,
    ended: false,
  } as const;
  const ended = { running: false, failure: null, output: [piece] };
  expect(toCheckResult(ended)).toEqual({ version: "1.2.3", failure: null });
  expect(toCheckResult({ ...ended, running: true })).toEqual({ version: null, failure: "overall-timeout" });
});

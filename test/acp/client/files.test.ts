import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { readTextFile, resolveContained, writeTextFile } from "../../../src/acp/client/files.js";
import { AcpFixture } from "../../support/agents/acp-fixture.js";
import {
  answersOf,
  type ClientStep,
  promptSteps,
  runSteps,
  spawnClientAgent,
} from "../../support/agents/client-agent.js";

const READ = "fs/read_text_file";
const WRITE = "fs/write_text_file";
const REFUSED = -32_001;
const NOT_THERE = -32_002;

/** A directory that the agent may use, and one that it may not. */
async function createDirectories(): Promise<{ readonly inside: string; readonly outside: string }> {
  const base = await mkdtemp(join(tmpdir(), "hf-files-"));
  onTestFinished(() => rm(base, { recursive: true, force: true }));
  const [inside, outside] = [join(base, "in"), join(base, "out")];
  mkdirSync(inside);
  mkdirSync(outside);
  writeFileSync(join(outside, "secret"), "secret\n");
  return { inside, outside };
}

test("file methods exist only as far as the client access grants them", async () => {
  const fixture = await AcpFixture.open();
  const path = join(fixture.home, "a.txt");
  const methods = [READ, WRITE, "terminal/create", "terminal/output", "terminal/wait_for_exit"];
  const all = methods.map((method) => [method, { path, command: "true" }] as const);
  const none = await spawnClientAgent(fixture, {});
  const codes = (await runSteps(fixture, none, ...all)).map(({ code }) => code);
  expect(codes).toEqual(methods.map(() => -32_601));
  expect(fixture.log.split("\n")[0]).toContain(
    '{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false,',
  );
  await fixture.close(none);

  writeFileSync(path, "there\n");
  const reader = await spawnClientAgent(fixture, { files: "read" }, { key: "two" });
  const answers = await runSteps(fixture, reader, ...all);
  expect(answers.map(({ code, content }) => code ?? content)).toEqual([
    "there\n",
    ...methods.slice(1).map(() => -32_601),
  ]);
  expect(fixture.log).toContain('{"fs":{"readTextFile":true,"writeTextFile":false},"terminal":false,');
});

test("text is read whole or by lines, and written atomically with its mode and missing directories", async () => {
  const fixture = await AcpFixture.open();
  const { inside } = await createDirectories();
  const path = join(inside, "lines.txt");
  writeFileSync(path, "one\ntwo\nthree");
  chmodSync(path, 0o640);
  const session = await spawnClientAgent(fixture, { files: "read-write" }, { cwd: inside });
  const made = join(inside, "new", "deep", "made.txt");
  const answers = await runSteps(
    fixture,
    session,
    [READ, { path }],
    [READ, { path, line: 2, limit: 1 }],
    [READ, { path, line: 3 }],
    [READ, { path, line: 9 }],
    [READ, { path, limit: 0 }],
    [WRITE, { path, content: "new \u{1F600}\n" }],
    [WRITE, { path: made, content: "made" }],
    [READ, { path: "relative" }],
    [WRITE, { path }],
    [READ, { path, sessionId: "another" }],
  );
  expect(answers.slice(0, 5).map(({ content }) => content)).toEqual([
    "one\ntwo\nthree",
    "two\n",
    "three",
    "",
    "",
  ]);
  expect(answers.slice(5, 7)).toEqual([{}, {}]);
  expect(answers.slice(7).map(({ code }) => code)).toEqual([-32_602, -32_602, -32_602]);
  expect(readFileSync(path, "utf8")).toBe("new \u{1F600}\n");
  expect(statSync(path).mode & 0o777).toBe(0o640);
  expect(readFileSync(made, "utf8")).toBe("made");
  expect(readdirSync(inside).toSorted()).toEqual(["lines.txt", "new"]);
});

test("paths outside the roots, other file types and large files are refused", async () => {
  const fixture = await AcpFixture.open();
  const { inside, outside } = await createDirectories();
  const at = (name: string): string => join(inside, name);
  symlinkSync(join(outside, "secret"), at("link"));
  symlinkSync(outside, at("directory"));
  symlinkSync(join(outside, "not-yet"), at("dangling"));
  symlinkSync(at("text"), at("inner"));
  symlinkSync("/proc", at("proc"));
  symlinkSync(at("loop"), at("loop"));
  writeFileSync(at("text"), "text");
  execFileSync("mkfifo", [at("fifo")]);
  mkdirSync(at("folder"));
  writeFileSync(at("binary"), Buffer.from([0x68, 0xff, 0xfe, 0x00]));
  writeFileSync(at("giant"), "");
  truncateSync(at("giant"), 5 * 1024 ** 3);

  const session = await spawnClientAgent(fixture, { files: "read-write" }, { cwd: inside });
  const paths: [string, number][] = [
    [join(outside, "secret"), REFUSED],
    [`${inside}/../out/secret`, REFUSED],
    [`${inside}/folder/../../out/secret`, REFUSED],
    [at("link"), REFUSED],
    [at("directory/secret"), REFUSED],
    [at("dangling"), REFUSED],
    [at("proc/self/environ"), REFUSED],
    ["/proc/self/environ", REFUSED],
    ["/dev/zero", REFUSED],
    [inside, REFUSED],
    [at("loop"), REFUSED],
    [at("fifo"), REFUSED],
    [at("folder"), REFUSED],
    [at("text/below"), REFUSED],
    [at("binary"), REFUSED],
    [at("giant"), REFUSED],
    [at("missing"), NOT_THERE],
    [`${at("missing")}/../../out/secret`, NOT_THERE],
  ];
  const reads = await runSteps(fixture, session, ...paths.map(([path]) => [READ, { path }] as const));
  expect(reads.map(({ code }, index) => [paths[index]?.[0], code])).toEqual(paths);
  expect(JSON.stringify(reads)).not.toContain('"secret\\n"');
  expect(reads[14]).toMatchObject({ message: expect.stringContaining("not UTF-8") as string });

  // These three can be written: they are files, or missing.
  const writable = [at("binary"), at("giant"), at("missing")];
  const hostile = paths.filter(([path]) => !writable.includes(path));
  const writes = await runSteps(
    fixture,
    session,
    ...hostile.map(([path]) => [WRITE, { path, content: "mine" }] as const),
    [WRITE, { path: at("inner"), content: "through a link that stays inside" }],
    [WRITE, { path: at("text"), content: "x".repeat(5 * 1024 * 1024) }],
  );
  expect(writes.map(({ code }, index) => [hostile[index]?.[0], code])).toEqual([
    ...hostile,
    [undefined, undefined],
    [undefined, REFUSED],
  ]);
  expect(readFileSync(at("text"), "utf8")).toBe("through a link that stays inside");
  expect(readdirSync(outside)).toEqual(["secret"]);
  expect(readFileSync(join(outside, "secret"), "utf8")).toBe("secret\n");
  expect(readdirSync(inside).filter((name) => name.startsWith(".holdfast"))).toEqual([]);

  const wider = await spawnClientAgent(
    fixture,
    { files: "read", roots: [outside] },
    { cwd: inside, key: "two" },
  );
  expect(await runSteps(fixture, wider, [READ, { path: at("link") }])).toEqual([{ content: "secret\n" }]);
});

test("a path that becomes a link after the check is refused", async () => {
  const { inside, outside } = await createDirectories();
  mkdirSync(join(inside, "folder"));
  writeFileSync(join(inside, "folder", "secret"), "mine");
  const file = await resolveContained(join(inside, "folder", "secret"), [inside]);
  const fresh = await resolveContained(join(inside, "later", "made"), [inside]);
  await rm(join(inside, "folder"), { recursive: true });
  symlinkSync(outside, join(inside, "folder"));
  symlinkSync(outside, join(inside, "later"));
  await expect(readTextFile(file, {})).rejects.toMatchObject({ code: REFUSED });
  await expect(writeTextFile(file, "overwritten", "id")).rejects.toMatchObject({ code: REFUSED });
  await expect(writeTextFile(fresh, "made", "id")).rejects.toMatchObject({ code: REFUSED });
  await rm(join(inside, "folder"));
  mkdirSync(join(inside, "folder"));
  symlinkSync(join(outside, "secret"), join(inside, "folder", "secret"));
  await expect(readTextFile(file, {})).rejects.toMatchObject({ code: REFUSED });
  await expect(writeTextFile(file, "overwritten", "id")).rejects.toMatchObject({ code: REFUSED });
  expect(readdirSync(outside)).toEqual(["secret"]);
  expect(readFileSync(join(outside, "secret"), "utf8")).toBe("secret\n");
  // The root itself.
  const root = await resolveContained(join(inside, "new"), [inside]);
  await rm(inside, { recursive: true });
  symlinkSync(outside, inside);
  await expect(writeTextFile(root, "made", "id")).rejects.toMatchObject({ code: REFUSED });
  expect(existsSync(join(outside, "new"))).toBe(false);
});

test("the temporary file is never readable by others before it has the file's mode", async () => {
  const { inside } = await createDirectories();
  const path = join(inside, "private");
  writeFileSync(path, "mine");
  chmodSync(path, 0o600);
  const place = await resolveContained(path, [inside]);
  const beside = join(inside, ".holdfast-id");
  const modes = new Set<number>();
  for (let round = 0; round < 50; round++) {
    const written = writeTextFile(place, "mine, too", "id").then(() => true);
    while (!(await Promise.race([written, setImmediate(false)]))) {
      const seen = statSync(beside, { throwIfNoEntry: false });
      if (seen !== undefined) modes.add(seen.mode & 0o777);
    }
  }
  expect([...modes]).toEqual([0o600]);
});

test("rules match the resolved path, and an allowed request is executed, also by the next gateway", async () => {
  const fixture = await AcpFixture.open();
  const { inside } = await createDirectories();
  const path = join(inside, "asked");
  symlinkSync(path, join(inside, "alias"));
  writeFileSync(path, "before");
  const session = await spawnClientAgent(
    fixture,
    { files: "read-write" },
    {
      cwd: inside,
      rules: [
        { effect: "reject", kind: "read", title: path },
        { effect: "allow", kind: "read" },
        { effect: "ask" },
      ],
    },
  );
  const [denied] = await runSteps(fixture, session, [READ, { path: join(inside, "alias") }]);
  expect(denied).toMatchObject({ code: REFUSED, message: "it is not allowed: rule 1" });

  const write = (content: string): ClientStep => [WRITE, { path, content }];
  const turn = await promptSteps(fixture, session, write("after"));
  const asked = await fixture.pendingPermission(session);
  expect(asked).toMatchObject({ kind: "edit", title: path, decision: null });
  expect(readFileSync(path, "utf8")).toBe("before");
  const second = await fixture.restart();
  expect(await second.allowPermission(asked.id)).toBe(true);
  expect(await answersOf(second, turn)).toEqual([{}]);
  expect(readFileSync(path, "utf8")).toBe("after");

  const refused = await promptSteps(second, session, write("never"));
  const { id } = await second.pendingPermission(session);
  await second.acp.answerPermission(id, "deny", "ada");
  expect(await answersOf(second, refused)).toMatchObject([{ code: REFUSED }]);
  const turned = await promptSteps(second, session, write("elsewhere"));
  const { id: other } = await second.pendingPermission(session);
  // The path now leads to another file than the one that was allowed.
  await rm(path);
  symlinkSync(join(inside, "other"), path);
  expect(await second.allowPermission(other)).toBe(true);
  expect(await answersOf(second, turned)).toMatchObject([{ code: REFUSED }]);
  expect(existsSync(join(inside, "other"))).toBe(false);

  const events = await second.supervisor.listEvents({});
  const decisions = events.filter(({ type }) => type === "permission").map(({ data }) => data);
  expect(decisions).toMatchObject([
    { kind: "read", title: path, verdict: "deny", actor: "rule 1" },
    { kind: "edit", title: path, verdict: "allow", actor: "ada" },
    { kind: "edit", verdict: "deny" },
    { kind: "edit", verdict: "allow" },
  ]);
});

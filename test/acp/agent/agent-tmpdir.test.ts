import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { removeAgentTmpdir } from "../../../src/acp/agent/adapter.js";
import { AcpFixture, shellAgent } from "../../support/agents/acp-fixture.js";

const NOBODY = 65_534;

test("read-only directories of an agent are removed, and targets of links are not", async () => {
  const outside = await mkdtemp(join(tmpdir(), "hf-kept-"));
  const path = await mkdtemp(join(tmpdir(), "hf-acp-"));
  onTestFinished(() => void execFileSync("rm", ["-rf", outside, path]));
  const locked = join(path, "cache", "module");
  await mkdir(locked, { recursive: true });
  await writeFile(join(locked, "go.mod"), "");
  await writeFile(join(outside, "file"), "");
  await symlink(outside, join(path, "link"));
  await chmod(locked, 0o500);
  await chmod(join(path, "cache"), 0o000);
  // Root ignores permissions, so this runs as another user.
  if (process.getuid?.() === 0) {
    for (const each of [outside, path, join(path, "cache"), locked]) await chown(each, NOBODY, NOBODY);
    process.seteuid?.(NOBODY);
    onTestFinished(() => process.seteuid?.(0));
  }
  await chmod(outside, 0o500);
  expect(await removeAgentTmpdir(path)).toBeNull();
  expect(existsSync(path)).toBe(false);
  expect(existsSync(join(outside, "file"))).toBe(true);
});

test("a TMPDIR that cannot be removed is reported and has no other effect", async () => {
  const problems: string[] = [];
  const onProblem = (message: string): void => void problems.push(message);
  const fixture = await AcpFixture.open({}, { onProblem });
  const session = await fixture.spawn(shellAgent());
  const { tmpdir: path } = await fixture.session(session);
  onTestFinished(() => void execFileSync("rm", ["-rf", path ?? "/nowhere"]));
  // Deeper than a path can say.
  const dig = `process.chdir(process.env.TMPDIR); for (let at = 0; at < 30; at++) {
    fs.mkdirSync("d".repeat(200)); process.chdir("d".repeat(200)) }`;
  expect(await fixture.promptAndWait(session, `${process.execPath} -e '${dig}'; echo dug`)).toMatchObject({
    text: "dug\n",
  });
  const { session: closed } = await fixture.acp.closeSession(session, { actor: "test" });
  expect(closed).toMatchObject({ state: "closed" });
  await fixture.waitForAgentExit(session);
  expect(problems).toEqual([`TMPDIR ${path} of an agent that has ended could not be removed`]);
});

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { newestEvents } from "../../../src/cli/process/events.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { EventFilter } from "../../../src/store/runs/contract.js";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";

const shared = gatewayAndCliForFile();
const holdfast = (...words: readonly string[]) => shared.batchCli.holdfast(...words);

async function json<Value>(...words: readonly string[]): Promise<Value> {
  const { stdout } = await holdfast(...words, "--json");
  return JSON.parse(stdout) as Value;
}

async function ended(script: string): Promise<string> {
  const runId = await shared.gatewayFixture.startScript(script);
  await shared.gatewayFixture.waitForEnd(runId);
  return runId;
}

describe("stop and kill", () => {
  test("stop several runs, and report each", async () => {
    const runs = [
      await shared.gatewayFixture.startScript("sleep 7040"),
      await shared.gatewayFixture.startScript("sleep 7041"),
    ];
    const { code, stdout } = await holdfast("stop", ...runs);
    expect(code).toBe(0);
    for (const runId of runs) expect(stdout).toContain(`${runId} is gone (manual-cancel)\n`);
    const again = await holdfast("stop", ...runs, "run_zzzzzzzzzzzz");
    expect(again.code).toBe(1);
    expect(again.stderr).toContain("no run run_zzzzzzzzzzzz");
    expect(again.stdout).toContain("it had already ended");
  });

  test("kill does not wait for the grace period", async () => {
    const runId = await shared.gatewayFixture.startRun({
      argv: ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"],
      graceMs: 600_000,
    });
    expect(await json("kill", runId)).toMatchObject({ runId, outcome: "gone", through: "gateway" });
  });

  test.each(["stop", "process kill", "process stop", "runs cancel", "runs stop", "service stop"])(
    "%s prints the same JSON",
    async (spelling) => {
      const runId = await shared.gatewayFixture.startScript("sleep 7042");
      expect(await json(...spelling.split(" "), runId)).toMatchObject({
        runId,
        through: "gateway",
        outcome: "gone",
        survivors: [],
        run: { runId, state: "exited" },
        command: null,
      });
    },
  );
});

test("rm removes ended runs, and refuses open ones without --force", async () => {
  const open = await shared.gatewayFixture.startScript("sleep 7043");
  const refused = await holdfast("rm", open);
  expect(refused).toMatchObject({ code: 1, stdout: "" });
  expect(refused.stderr).toContain(`${open} is running and was not removed; stop it first, or use --force`);
  expect(await holdfast("rm", "-f", open)).toMatchObject({
    code: 0,
    stdout: `${open} is removed\n${open} is gone (manual-cancel)\n`,
  });
  const done = await ended("exit 3");
  expect(await holdfast("rm", done)).toMatchObject({ code: 0, stdout: `${done} is removed\n` });
});

test("ps -a lists ended and removed runs, as records with processes", async () => {
  const open = await shared.gatewayFixture.startScript("sleep 7044");
  const done = await ended("exit 3");
  const rows = await json<(RunRecord & { readonly processes: readonly object[] })[]>("ps", "-a");
  expect(rows.find(({ runId }) => runId === open)).toMatchObject({ state: "running" });
  expect(rows.find(({ runId }) => runId === open)?.processes.length).toBeGreaterThan(0);
  expect(rows.find(({ runId }) => runId === done)).toMatchObject({ exit: { code: 3 }, processes: [] });
  expect((await json<RunRecord[]>("ps")).map(({ runId }) => runId)).not.toContain(done);
  expect((await holdfast("ps", "-a")).stdout).toMatch(new RegExp(`${done} +exit 3 `));
  await holdfast("kill", open);
});

test("wait prints the exit codes of runs", async () => {
  const [failed, killed] = [await ended("exit 3"), await ended("kill -9 $$")];
  expect(await holdfast("wait", failed, killed)).toMatchObject({ code: 0, stdout: "3\n137\n" });
  const running = await shared.gatewayFixture.startScript("echo a; sleep 0.3; echo b; sleep 0.3; exit 7");
  expect(await holdfast("wait", running)).toMatchObject({ code: 0, stdout: "7\n" });
});

test("inspect shows one record, or several", async () => {
  const [one, two] = [await ended("true"), await ended("true")];
  expect(await json("inspect", one)).toMatchObject({ runId: one, events: expect.any(Array) as unknown[] });
  expect(await json("inspect", one, two)).toMatchObject([{ runId: one }, { runId: two }]);
  expect(await json("runs", "show", one)).toEqual(await json("inspect", one));
});

test.each([
  ["runs", "runs list"],
  ["services", "service list"],
  ["sessions", "sessions list"],
  ["acp", "acp list"],
  ["approvals", "approvals list"],
  ["agents", "agents list"],
  ["tasks", "tasks list"],
  ["process", "process list"],
  ["gateways", "gateways list"],
  ["notify", "notify channels"],
  ["foreign", "unmanaged list"],
])("%s alone is %s", async (noun, command) => {
  const [bare, whole] = [await holdfast(noun, "--json"), await holdfast(...command.split(" "), "--json")];
  expect(bare.code).toBe(0);
  expect(JSON.parse(bare.stdout)).toBeInstanceOf(Array);
  expect(whole.code).toBe(0);
});

describe("a name", () => {
  test("stands for the run in every command", async () => {
    const { stdout } = await holdfast("run", "-d", "--name", "web", "--", "sleep", "7045");
    const runId = stdout.trim();
    expect(await json("inspect", "web")).toMatchObject({ runId, labels: { name: "web" } });
    expect((await holdfast("ps")).stdout).toMatch(
      new RegExp(`^RUN +NAME +STATUS.*\\n(.*\\n)*${runId} +web +running`),
    );
    const taken = await holdfast("run", "-d", "--name", "web", "--", "true");
    expect(taken).toMatchObject({ code: 2, stdout: "" });
    expect(taken.stderr).toContain(`the open run ${runId} has the name web`);
    expect(await json("stop", "web")).toMatchObject({ runId, outcome: "gone" });
    const next = (await holdfast("run", "-d", "--name", "web", "--", "sleep", "7046")).stdout.trim();
    expect(await json("inspect", "web")).toMatchObject({ runId: next });
    expect(await json("kill", "web")).toMatchObject({ runId: next });
    expect(await holdfast("logs", "web")).toMatchObject({ code: 0 });
  });

  test.each(["run_x", "abcdefghijkl", "-x", "a b", "", "x".repeat(64)])("cannot be %j", async (name) => {
    expect(await holdfast("run", "-d", `--name=${name}`, "--", "true")).toMatchObject({
      code: 2,
      stdout: "",
    });
  });
});

test("-e and --env-file set variables; a later one wins, and a name alone passes its value on", async () => {
  const directory = await mkdtemp(join(tmpdir(), "hf-env-"));
  const file = join(directory, "env");
  await writeFile(file, "# comment\n\nA=from file\nB=from=file\nPATH\nNOT_SET_ANYWHERE\n");
  const show = 'echo "$A|$B|${PATH:+path}|${NOT_SET_ANYWHERE-unset}"';
  const options = ["--no-pty", "--clear-env", "--env-file", file, "-e", "A=from option"];
  expect(await holdfast("run", ...options, "--", "/bin/sh", "-c", show)).toMatchObject({
    code: 0,
    stdout: "from option|from=file|path|unset\n",
  });
  await writeFile(file, "A=1\nnot a variable\n");
  const wrong = await holdfast("run", "--env-file", file, "--", "true");
  expect(wrong).toMatchObject({ code: 2 });
  expect(wrong.stderr).toContain(`${file}:2: not NAME=value`);
  await rm(directory, { recursive: true });
});

describe("logs", () => {
  test("prints everything when stdout is a pipe, and says what -n leaves out", async () => {
    const runId = await ended("seq 1 30000");
    const all = await holdfast("logs", runId);
    expect(all.stdout.trimEnd().split("\n")).toHaveLength(30_000);
    expect(all.stderr).toBe("");
    const last = await holdfast("logs", runId, "-n", "2");
    expect(last.stdout).toBe("29999\n30000\n");
    expect(last.stderr).toContain(`of earlier stdout not shown; holdfast logs ${runId} -n all prints it`);
    expect((await holdfast("logs", runId, "-n", "all")).stdout).toBe(all.stdout);
    expect(await holdfast("logs", runId, "-n", "none")).toMatchObject({ code: 2 });
  });

  test("--since prints output from a time on", async () => {
    const runId = await ended("echo old");
    expect((await holdfast("logs", runId, "--since", "1h")).stdout).toBe("old\n");
    const later = new Date(Date.now() + 1_000).toISOString();
    expect((await holdfast("logs", runId, "--since", later)).stdout).toBe("");
    expect((await holdfast("logs", runId, "--since", new Date(0).toISOString())).stdout).toBe("old\n");
    expect(await holdfast("logs", runId, "--since", "yesterday")).toMatchObject({ code: 2 });
  });
});

test("events leaves out output heartbeats, however many there are", async () => {
  const types = Array.from({ length: 500 }, (_, at) => (at % 100 === 0 ? "spawn" : "output"));
  const all = types.map((type, at) => ({ seq: at + 1, type })) as unknown as readonly RunEvent[];
  const listEvents = async ({ limit = 0 }: EventFilter) => all.toReversed().slice(0, limit);
  const shown = await newestEvents({ listEvents }, { after: 0 }, 3, false);
  expect(shown.events.map(({ seq }) => seq)).toEqual([201, 301, 401]);
  expect(shown.last).toBe(500);
  const every = await newestEvents({ listEvents }, { after: 0 }, 3, true);
  expect(every.events.map(({ seq }) => seq)).toEqual([498, 499, 500]);
});

test("a service that fails to start shows its last output, and 125 is not its exit code", async () => {
  const failed = await holdfast(
    ...["run", "--service", "--port", "1", "--"],
    ...["sh", "-c", "echo starting; echo 'no database' >&2; exit 0"],
  );
  expect(failed.code).toBe(1);
  expect(failed.stderr).toMatch(/last lines of stdout:\nstarting\n.*last lines of stderr:\nno database\n/s);
  expect(failed.stderr).toContain("before it listened on port 1");
});

test.each(["--notify-channel", "--tell"])("%s names the channel to notify", async (option) => {
  const refused = await holdfast("run", option, "ops", "--", "true");
  expect(refused).toMatchObject({ code: 2 });
  expect(refused.stderr).toContain(`${option} is for work in the background: add --detach`);
});

import { describe, expect, test } from "vitest";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { RunGate } from "../../support/cli/recovery-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayAndCliForFile();

test("process log prints the last lines, lines from a line on, or bytes from a byte on, of one stream", async () => {
  const runId = await fixture.gatewayFixture.startScript(
    "printf 'one\\ntwo\\nthr\\033[31mee\\nfour\\n'; echo no >&2",
  );
  await fixture.gatewayFixture.waitForEnd(runId);
  const log = async (...words: readonly string[]) =>
    (await fixture.batchCli.holdfast("process", "log", runId, ...words)).stdout;
  expect(await log()).toBe("one\ntwo\nthree\nfour\n");
  expect(await log("-n", "1")).toBe("four\n");
  expect(await log("--skip", "1", "--lines", "1")).toBe("two\n");
  expect(await log("--offset", "4", "--bytes", "6")).toBe("two\nth");
  expect(await log("--stream", "stderr")).toBe("no\n");
  expect(await log("--raw", "--skip", "2", "-n", "1")).toBe("thr\u001b[31mee\n");
  expect(JSON.parse(await log("--offset", "4", "--bytes", "6", "--json"))).toEqual({
    stream: "stdout",
    offset: 4,
    lost: 0,
    nextOffset: 10,
    text: "two\nth",
    skipped: 0,
    ended: false,
  });
  expect(
    await fixture.batchCli.holdfast("process", "log", runId, "--offset", "1", "--skip", "1"),
  ).toMatchObject({
    code: 2,
  });
});

describe.concurrent("logs", () => {
  const coloured = String.raw`printf '\033[31mred\033[0m\007\n'`;

  test("-f follows to the end, without escape sequences", async () => {
    await using gate = await RunGate.create();
    const runId = await fixture.gatewayFixture.startScript(
      `${coloured}; read line <'${gate.path}'; ${coloured}; exit 3`,
    );
    const { child, finished } = fixture.gatewayFixture.start("logs", "-f", runId);
    await waitForText(child.stdout, "red");
    await gate.release();
    expect(await finished).toEqual({ code: 0, signal: null, stdout: "red␇\nred␇\n", stderr: "" });
    expect(await fixture.gatewayFixture.holdfast("logs", runId, "--raw", "-n", "1")).toMatchObject({
      code: 0,
      stdout: "\u001b[31mred\u001b[0m\u0007\n",
    });
  });

  const counted = (most: number): string => Array.from({ length: most }, (_, at) => `é${at + 1}\n`).join("");

  test("-f prints all that is kept, however much is written at once", async () => {
    await using gate = await RunGate.create();
    const runId = await fixture.gatewayFixture.startScript(
      `echo up; read line <'${gate.path}'; seq -f é%.0f 1 200000`,
    );
    const { child, finished } = fixture.gatewayFixture.start("logs", "-f", runId);
    await waitForText(child.stdout, "up");
    await gate.release();
    const whole = `up\n${counted(200_000)}`;
    const followed = await finished;
    expect(followed.stdout === whole, `${followed.stdout.length} of ${whole.length}`).toBe(true);
    expect(followed).toMatchObject({ code: 0, stderr: "" });
    const from = await fixture.gatewayFixture.holdfast(
      "process",
      "log",
      "-f",
      runId,
      "--offset",
      "0",
      "--bytes",
      "8",
    );
    expect(from.stdout === whole, `${from.stdout.length} of ${whole.length}`).toBe(true);
  });

  test("report once how much was dropped, and print all that was kept", async () => {
    const runId = await fixture.gatewayFixture.startScript("seq -f é%.0f 1 1100000");
    await fixture.gatewayFixture.waitForEnd(runId);
    const whole = Buffer.from(counted(1_100_000));
    const { stdout, stderr } = await fixture.gatewayFixture.holdfast(
      "process",
      "log",
      "-f",
      runId,
      "--offset",
      "0",
    );
    const [, dropped = "0"] =
      /^holdfast: (\d+) bytes of stdout were dropped: the run wrote more than is kept\n$/.exec(stderr) ?? [];
    expect(Number(dropped), stderr).toBeGreaterThan(0);
    expect(whole.subarray(Number(dropped)).equals(Buffer.from(stdout)), dropped).toBe(true);
    const { skipped } = await fixture.gatewayFixture.json<{ skipped: number }>(
      "process",
      "log",
      runId,
      "--skip",
      "0",
    );
    expect(skipped).toBe(Number(dropped));
    const newest = await fixture.gatewayFixture.holdfast("logs", runId, "-n", "1");
    expect(newest.stdout).toBe("é1100000\n");
    expect(newest.stderr).toMatch(
      /MiB of earlier stdout not shown; holdfast logs run_\w+ -n all prints it\n$/,
    );
  });

  test("-f continues over a restart of the gateway", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    await using gate = await RunGate.create();
    const runId = await gatewayFixture.startScript(`echo up; read line <'${gate.path}'; echo after`);
    const { child, finished } = gatewayFixture.start("logs", "-f", runId);
    await waitForText(child.stdout, "up");
    await gatewayFixture.holdfast("gateway", "restart");
    await gate.release();
    expect(await finished).toEqual({ code: 0, signal: null, stdout: "up\nafter\n", stderr: "" });
  });

  test("-f follows a run of another supervisor without busy polling", async () => {
    await using gate = await RunGate.create();
    const script = `echo up; read line <'${gate.path}'; echo after`;
    const run = fixture.gatewayFixture.start("run", "--", "sh", "-c", script);
    await waitForText(run.child.stdout, "up");
    const client = await fixture.gatewayFixture.client();
    const { runs } = await client.listRuns();
    const runId = runs.find(({ command }) => command.includes(gate.path))?.runId ?? "";
    const before = performance.now();
    await client.poll({ params: { runId }, query: { stdout: 3, waitMs: 300 } });
    expect(performance.now() - before).toBeGreaterThan(250);
    const { child, finished } = fixture.gatewayFixture.start("logs", "-f", runId);
    await waitForText(child.stdout, "up");
    await gate.release();
    expect(await finished).toMatchObject({ code: 0, stdout: "up\nafter\n", stderr: "" });
    expect(await run.finished).toMatchObject({ code: 0 });
  });
});

test("poll and logs print text without escape sequences, except with --raw", async () => {
  const runId = await fixture.gatewayFixture.startScript(String.raw`printf 'a\033[31mb\000\n'`);
  await fixture.gatewayFixture.waitForEnd(runId);
  const json = async (...words: readonly string[]): Promise<string> =>
    (await fixture.batchCli.holdfast(...words, "--json")).stdout;
  for (const text of [await json("process", "poll", runId), await json("logs", runId)]) {
    expect(text).toContain(String.raw`"text":"ab␀\n"`);
    expect(text).not.toContain("u001b");
  }
  const raw = JSON.parse(await json("process", "poll", runId, "--raw")) as {
    readonly output: readonly { readonly base64: string }[];
  };
  expect(Buffer.from(raw.output[0]?.base64 ?? "", "base64").toString()).toBe("a\u001b[31mb\0\n");
  expect((await fixture.batchCli.holdfast("process", "poll", runId, "--raw")).stdout).toContain(
    "a\u001b[31mb\0\n",
  );
  expect((await fixture.batchCli.holdfast("process", "poll", runId)).stdout).toContain("ab␀\n");
});

test("events -f continues with new events, one JSON object per line", async () => {
  const first = await fixture.gatewayFixture.startScript("exit 0");
  await fixture.gatewayFixture.waitForEnd(first);
  const { child, finished } = fixture.gatewayFixture.start("events", "-f", "--json");
  let seen = "";
  child.stdout.on("data", (data: Buffer) => (seen += data.toString()));
  const ends = (): readonly string[] =>
    seen
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { runId: string; type: string })
      .filter(({ type }) => type === "spawn" || type === "exit")
      .map(({ runId, type }) => `${runId} ${type}`);
  await waitFor("the past events are printed", () => ends().includes(`${first} exit`));
  const second = await fixture.gatewayFixture.startScript("exit 5");
  await waitFor("the new events are printed", () => ends().includes(`${second} exit`));
  child.kill("SIGTERM");
  await finished;
  expect(ends().slice(-4)).toEqual([`${first} spawn`, `${first} exit`, `${second} spawn`, `${second} exit`]);
});

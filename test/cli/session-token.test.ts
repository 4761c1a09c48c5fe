import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BatchCli } from "../support/cli/batch-cli.js";
import { BackgroundGateway } from "../support/cli/background-gateway.js";

let gatewayFixture: BackgroundGateway;
let session: BatchCli;
/** A run that does not belong to the session. */
let runId: string;
beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.started();
  runId = await gatewayFixture.startRun({ argv: ["sleep", "7021"] });
  const { token } = await (
    await gatewayFixture.client()
  ).openSession({
    body: { key: "s", execRules: [{ effect: "deny", executable: "env" }, { effect: "allow" }] },
  });
  // A unit that is written by mistake must not go to the home of the user.
  session = new BatchCli({
    ...gatewayFixture.env,
    HOLDFAST_TOKEN: token,
    XDG_CONFIG_HOME: gatewayFixture.home,
  });
});
afterAll(async () => {
  await session[Symbol.asyncDispose]();
  await gatewayFixture[Symbol.asyncDispose]();
});

test.for([
  ["stop the gateway", "gateway stop --runs terminate"],
  ["restart the gateway", "gateway restart"],
  ["abandon a run", "runs abandon RUN --yes"],
  ["clean up runs", "runs cleanup --run RUN --yes"],
  ["import processes", "runs import /dev/null"],
  ["copy a store", "store copy --from a --to b"],
  ["end processes of other tools", "foreign cleanup x --yes"],
  ["open a session", "sessions create --key other"],
  ["close a session", "sessions end s"],
  ["list commands that wait for approval", "approvals list"],
  ["answer approvals", "approvals list --follow"],
  ["answer approvals", "approvals allow apr_000000000000"],
  ["take a process out of its run", "service adopt 1"],
  ["install a service", "service install"],
  ["install a service", "service install --print --json"],
  ["retry or dismiss notifications", "tasks retry RUN"],
  ["retry or dismiss notifications", "tasks dismiss RUN"],
  ["audit tasks", "tasks audit"],
  ["maintain tasks", "tasks maintenance --apply"],
] as const)("with the token of a session, only the operator may %s: %s", async ([what, line]) => {
  const { pid } = await gatewayFixture.status();
  expect(await session.holdfast(...line.replace("RUN", runId).split(" "))).toEqual({
    code: 1,
    signal: null,
    stdout: "",
    stderr: `holdfast: only the operator may ${what}, and HOLDFAST_TOKEN acts for a session; nothing was done. HOLDFAST_AS_OPERATOR=1 acts as the operator\n`,
  });
  expect(await gatewayFixture.status()).toMatchObject({ pid });
  expect(await gatewayFixture.record(runId)).toMatchObject({ state: "running" });
});

test("a refused service installation leaves no unit", () => {
  expect(existsSync(join(gatewayFixture.home, "systemd"))).toBe(false);
});

test("a session stops its own runs; runs of others look like unknown ones", async () => {
  const others = await gatewayFixture.startRun({ argv: ["sleep", "7022"] });
  for (const words of [
    ["runs", "cancel"],
    ["service", "stop"],
  ]) {
    const answer = await session.holdfast(...words, others, "--json");
    expect(answer).toMatchObject({ code: 1, stdout: "", stderr: `holdfast: no run ${others}\n` });
    const own = (await session.holdfast("run", "-d", "--", "sleep", "7023")).stdout.trim();
    const { code, stdout } = await session.holdfast(...words, own, "--json");
    expect({ code, ...(JSON.parse(stdout) as object) }).toMatchObject({
      code: 0,
      runId: own,
      outcome: "gone",
    });
  }
  expect(await gatewayFixture.record(others)).toMatchObject({ state: "running" });
  expect(await session.holdfast("gateway", "status")).toMatchObject({ code: 0 });
});

test("every read command shows the runs of the session only", async () => {
  const others = await gatewayFixture.startRun({ argv: ["sleep", "7024"], labels: { whose: "others" } });
  const own = (
    await session.holdfast("run", "-d", "--label", "whose=own", "--", "sleep", "7025")
  ).stdout.trim();
  const { root } = await gatewayFixture.record(others);
  const { root: ownRoot } = await gatewayFixture.record(own);
  const looks = [
    "ps",
    "ps --json",
    "runs list",
    "runs list --all --json",
    "process list",
    "events",
    "tasks --json",
  ];
  for (const line of looks) {
    const { code, stdout } = await session.holdfast(...line.split(" "));
    expect({ line, code, own: stdout.includes(own), others: stdout.includes(others) }).toEqual({
      line,
      code: 0,
      own: true,
      others: false,
    });
  }
  expect((await session.holdfast("runs", "list", "--label", "whose=others")).stdout).toBe("");
  for (const line of ["runs show", "events --run", "logs", "process poll", "tasks show"]) {
    expect(await session.holdfast(...line.split(" "), own)).toMatchObject({ code: 0 });
    // The same answer as for an unknown run.
    const answer = await session.holdfast(...line.split(" "), others);
    const missing = await session.holdfast(...line.split(" "), "run_000000000000");
    expect({ ...answer, stderr: answer.stderr.replaceAll(others, "run_000000000000") }).toEqual(missing);
    expect(answer).toMatchObject({ code: 1, stdout: "" });
  }
  expect((await session.holdfast("who", String(ownRoot?.pid))).stdout).toContain(own);
  const theirs = await session.holdfast("who", String(root?.pid));
  const unrelated = await session.holdfast("who", String(process.pid));
  expect(theirs).toMatchObject({ code: 1, stdout: "" });
  expect(theirs.stderr.replaceAll(String(root?.pid), String(process.pid))).toBe(unrelated.stderr);
});

test("without a gateway a session sees nothing but the reason", async () => {
  const nowhere = {
    ...gatewayFixture.env,
    HOLDFAST_HOME: `${gatewayFixture.home}/none`,
    HOLDFAST_TOKEN: "hft_x",
  };
  await using lost = new BatchCli(nowhere);
  for (const line of ["ps", "runs list", "events", "sessions list", "logs run_000000000000"])
    expect(await lost.holdfast(...line.split(" "))).toMatchObject({
      code: 125,
      stdout: "",
      stderr: expect.stringContaining("only a gateway knows what this session may see") as string,
    });
});

test("a command that a rule denies exits with 126", async () => {
  for (const words of [["run"], ["run", "-d"], ["run", "--service"]])
    expect(await session.holdfast(...words, "--", "env")).toMatchObject({
      code: 126,
      stdout: "",
      stderr: expect.stringMatching(/^holdfast: the command was not allowed: [^\n]+\n$/),
    });
});

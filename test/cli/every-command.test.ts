import type { Option } from "commander";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { buildProgram, runProgram } from "../../src/cli/program.js";
import { allCommands } from "./command-table.js";
import { BatchCli } from "../support/cli/batch-cli.js";
import { BackgroundGateway } from "../support/cli/background-gateway.js";
import type { CliResult } from "../support/cli/cli-fixture.js";

const commands = [...allCommands()];

/** Executes a wrong command line: the parser rejects it before the command runs. */
async function parsed(
  ...args: readonly string[]
): Promise<{ readonly code: number; readonly stderr: string }> {
  let stderr = "";
  const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    stderr += String(text);
    return true;
  });
  try {
    return { code: await runProgram(["node", "holdfast", ...args]), stderr };
  } finally {
    write.mockRestore();
  }
}

const ONE_LINE = /^holdfast: [^\n\u0000-\u0008\u000b-\u001f\u007f]+\n$/;

function expectUsage(answer: { readonly code: number; readonly stderr: string }): void {
  expect(answer.stderr).toMatch(ONE_LINE);
  expect(answer.code).toBe(2);
}

describe.each(commands)("%s", (path, command) => {
  const must = command.options.filter(({ mandatory }) => mandatory).flatMap(({ long }) => [long ?? "", "x"]);
  const words = [...path.split(" "), ...must];
  const { registeredArguments: wanted } = command;

  test("refuses an unknown option, and suggests a similar one", async () => {
    expectUsage(await parsed(...words, "--frobnicate"));
    if (!command.options.some(({ long }) => long === "--json")) return;
    const slip = await parsed(...words, "--jsn");
    expectUsage(slip);
    expect(slip.stderr).toContain("did you mean --json");
  });

  test("refuses missing and excess arguments", async () => {
    if (wanted.some(({ required }) => required)) expectUsage(await parsed(...words));
    if (wanted.some(({ variadic }) => variadic)) return;
    expectUsage(await parsed(...words, ...wanted.map(({ argChoices }) => argChoices?.[0] ?? "1"), "extra"));
  });

  const valued = command.options.filter(({ required }) => required);
  if (valued.length > 0)
    test("refuses an option without a value, and every invalid value", async () => {
      for (const option of valued) {
        const name = option.long ?? "";
        expectUsage(await parsed(...words, name));
        for (const value of ["", "-1", "nonsense\u001b[31m\n", "1e99", "9".repeat(40), "x".repeat(5_000)])
          if (!accepts(option, value)) expectUsage(await parsed(...words, `${name}=${value}`));
      }
    });
});

/** True if the parser of the option accepts the value. */
function accepts(option: Option, value: string): boolean {
  if (option.argChoices !== undefined) return option.argChoices.includes(value);
  try {
    option.parseArg?.(value, option.defaultValue as never);
    return true;
  } catch {
    return false;
  }
}

test("more than 25 options reject an invalid value", () => {
  const strict = commands.flatMap(([, command]) =>
    command.options.filter((option) => option.required && !accepts(option, "nonsense")),
  );
  expect(strict.length).toBeGreaterThan(25);
});

test.each([
  ["rnu", "did you mean holdfast run"],
  ["process sto", "did you mean holdfast process stop"],
  ["top", "did you mean holdfast ps --watch"],
  ["restart", "did you mean holdfast gateway restart"],
  ["list", "did you mean holdfast ps"],
  ["agent claude", "did you mean holdfast agent run claude"],
  ["tasks logs", "did you mean holdfast logs"],
  ["constructor", "unknown command 'constructor'"],
  ["frobnicate", "holdfast help lists the commands"],
])("%s is no command", async (line, text) => {
  const answer = await parsed(...line.split(" "));
  expectUsage(answer);
  expect(answer.stderr).toContain(text);
});

test("help lists every command below its purpose", async () => {
  const help = buildProgram(() => undefined).helpInformation();
  const headings = [...help.matchAll(/^(\S.*):$/gm)].map(([, heading]) => heading);
  expect(headings).toEqual([
    "Options",
    "Run commands and agents",
    "Runs",
    "Sessions, tasks and notifications",
    "Gateway and setup",
  ]);
  for (const [path] of commands.filter(([name]) => name !== "__complete"))
    expect(help).toMatch(new RegExp(`^  ${path.split(" ")[0] ?? ""} `, "m"));
});

/** Further arguments of commands that need them. */
const MORE: Readonly<Record<string, readonly string[]>> = {
  attach: ["--read-only"],
  "acp prompt": ["x"],
  "process write": ["x"],
  "process send-keys": ["Enter"],
  "process paste": ["x"],
  "process submit": ["x"],
  "process resize": ["9", "9"],
  "runs abandon": ["--yes"],
  "sessions send": ["x"],
  "tasks notify": ["silent"],
  "agent run": ["x"],
  "unmanaged cleanup": ["--yes"],
};

const NAMES = [
  "run_zzzzzzzzzzzz",
  "",
  "../../etc/passwd\n\u001b[31m'; drop table runs --",
  "x".repeat(5_000),
];

const named = commands.filter(
  ([
    path,
    {
      registeredArguments: [first],
    },
  ]) => path !== "run" && first !== undefined,
);

describe("an unknown name", () => {
  let gatewayFixture: BackgroundGateway;
  let batchCli: BatchCli;
  beforeAll(async () => {
    gatewayFixture = await BackgroundGateway.started();
    batchCli = new BatchCli(gatewayFixture.env);
    // A run that must not be affected.
    await gatewayFixture.startScript("sleep 7011");
  });
  afterAll(async () => {
    await batchCli[Symbol.asyncDispose]();
    await gatewayFixture[Symbol.asyncDispose]();
  });

  test.each(named.map(([path]) => path))("%s", async (path) => {
    const client = await gatewayFixture.client();
    const before = await client.listRuns({ query: { all: "1", hidden: "1" } });
    for (const name of NAMES)
      expectRefused(await batchCli.holdfast(...path.split(" "), name, ...(MORE[path] ?? [])));
    const after = await client.listRuns({ query: { all: "1", hidden: "1" } });
    const states = ({ runs }: typeof after) =>
      runs.map(({ runId, state, hiddenAt }) => [runId, state, hiddenAt]);
    expect(states(after)).toEqual(states(before));
  });
});

function expectRefused({ code, stdout, stderr }: CliResult): void {
  expect(stderr).toMatch(ONE_LINE);
  expect(stderr).not.toMatch(/\bat .*:\d+:\d+|undefined|\[object/);
  expect({ stdout, refused: code === 1 || code === 2, stderr }).toEqual({
    stdout: "",
    refused: true,
    stderr,
  });
}

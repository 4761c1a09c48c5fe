import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openScriptedSession } from "../support/agents/scripted-agent.js";
import { COMMAND_USES, allCommands, type SampleNames } from "./command-table.js";
import { BatchCli } from "../support/cli/batch-cli.js";
import { BackgroundGateway } from "../support/cli/background-gateway.js";
import { waitFor } from "../support/wait-for.js";

const readers = Object.entries(COMMAND_USES).flatMap(([path, looks]) =>
  looks === "acts" ? [] : [{ path, looks }],
);

test("every command is classified as reading or acting", () => {
  expect(Object.keys(COMMAND_USES).toSorted()).toEqual([...allCommands().keys()].toSorted());
});

test("every command has --json, except those that use the terminal, or print a script or help", () => {
  const without = [...allCommands()].filter(
    ([, command]) => !command.options.some(({ long }) => long === "--json"),
  );
  expect(without.map(([path]) => path).toSorted()).toEqual([
    ...["__complete", "acp login", "attach", "completion", "help", "shellenv"],
  ]);
});

let gatewayFixture: BackgroundGateway;
let samples: SampleNames;
let batchCli: BatchCli;

/** Every row of every table as text, without the fields that a gateway renews. */
function rows(renewed: readonly string[]): string {
  const db = new DatabaseSync(gatewayFixture.store, { readOnly: true });
  try {
    const tables = db.prepare("select name from sqlite_schema where type = 'table' order by name").all() as {
      readonly name: string;
    }[];
    const all = tables.map(({ name }) => ({ name, rows: db.prepare(`select * from "${name}"`).all() }));
    return JSON.stringify(all, (key, value: unknown) => (renewed.includes(key) ? null : value), 1);
  } finally {
    db.close();
  }
}

async function files(): Promise<string[]> {
  return (await readdir(gatewayFixture.home, { recursive: true })).toSorted();
}

/** Executes the command, and again with `--json`. */
async function look(path: string, words: readonly string[]): Promise<void> {
  const json =
    allCommands()
      .get(path)
      ?.options.some(({ long }) => long === "--json") === true;
  for (const each of [words, ...(json ? [[...words, "--json"]] : [])]) {
    const { code, stderr } = await batchCli.holdfast(...path.split(" "), ...each);
    const may = ["gateway status", "doctor", "tasks audit"].includes(path) ? [0, 1] : [0];
    expect({ path, each, stderr, well: may.includes(code ?? -1) }).toEqual({
      path,
      each,
      stderr,
      well: true,
    });
    expect(stderr).not.toMatch(/started a gateway|\n\s+at /);
  }
}

beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.started();
  const records = join(gatewayFixture.home, "records.json");
  await writeFile(records, JSON.stringify([{ pid: 4_000_000, command: "true", wrapperRoot: "/opt/x" }]));
  await writeFile(
    join(gatewayFixture.home, "config.toml"),
    '[[foreign]]\nname = "tool"\nmarker = "SOME_TOOL_ID"\n',
  );
  batchCli = new BatchCli({
    ...gatewayFixture.env,
    HOLDFAST_CONFIG: join(gatewayFixture.home, "config.toml"),
  });
  const client = await gatewayFixture.client();
  await client.openSession({ body: { key: "k" } });
  for (const text of ["one", "two"]) await client.sendMessage({ params: { id: "k" }, body: { text } });
  const ended = await gatewayFixture.startRun({ argv: ["printf", "one\ntwo\n"], pty: true });
  await gatewayFixture.waitForEnd(ended);
  const open = await gatewayFixture.startBash();
  // The output heartbeat is recorded after the output was seen.
  await waitFor(
    "its output is on record",
    async () => (await gatewayFixture.record(open)).lastOutputAt !== null,
  );
  await waitFor("its task has progress", async () => {
    const { task } = await client.getTask({ params: { id: open } });
    return task.progress !== null;
  });
  const { root } = await gatewayFixture.record(open);
  const closed = await openScriptedSession(gatewayFixture, "spoken");
  await client.acpPrompt({ params: { id: closed }, body: { text: "hello" } });
  await client.acpClose({ params: { id: closed } });
  samples = { session: "k", ended, open, pid: root?.pid ?? 0, records, closed };
});
afterAll(async () => {
  await batchCli[Symbol.asyncDispose]();
  await gatewayFixture[Symbol.asyncDispose]();
});

// First with a gateway, then without: the run continues under its anchor.
describe.each(["answers", "is gone"])("when the gateway %s", (where) => {
  const renewed = where === "answers" ? ["lease_expires_at", "updated_at", "heartbeat_at"] : [];
  beforeAll(async () => {
    if (where === "answers") return;
    await gatewayFixture.stop();
    await waitFor("the gateway has ended", async () =>
      (await gatewayFixture.processes()).every((line) => !line.includes("gateway run")),
    );
  });

  test.each(readers.map(({ path, looks }) => [path, looks] as const))(
    "%s changes nothing",
    async (path, looks) => {
      const [before, there, processes] = [rows(renewed), await files(), await gatewayFixture.processes()];
      for (const words of looks(samples)) await look(path, words);
      expect(rows(renewed)).toEqual(before);
      expect(await files()).toEqual(there);
      expect(await gatewayFixture.processes()).toEqual(processes);
    },
  );
});

test("output is read without a gateway, with a notice", async () => {
  const logs = await gatewayFixture.holdfast("logs", samples.ended);
  expect(logs).toMatchObject({ code: 0, stdout: "one\ntwo\n" });
  expect(logs.stderr).toBe("holdfast: no gateway is running; showing what the store has\n");
  const screen = await gatewayFixture.holdfast("screen", samples.open);
  expect(screen).toMatchObject({ code: 0, stdout: expect.stringContaining("ready>") as string });
});

test("a session sees nothing without a gateway", async () => {
  const { child, finished } = gatewayFixture.startWith({ HOLDFAST_TOKEN: "hfs_x" }, "logs", samples.ended);
  child.stdin.end();
  expect(await finished).toMatchObject({ code: 125, stdout: "" });
});

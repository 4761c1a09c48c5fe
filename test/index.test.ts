import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openSupervisor } from "../src/index.js";
import * as library from "../src/index.js";
import { CliFixture } from "./support/cli/cli-fixture.js";

let cliFixture: CliFixture;
beforeEach(async () => {
  cliFixture = await CliFixture.open();
  vi.stubEnv("HOLDFAST_HOME", cliFixture.home);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  await cliFixture[Symbol.asyncDispose]();
});

/** The example of the README, line for line; checked by the test below. */
async function example(): Promise<void> {
  // begin
  await using supervisor = await openSupervisor();
  const run = await supervisor.spawn(
    { io: "pipe", argv: ["npm", "test"] },
    { timeoutMs: 30 * 60_000, noOutputTimeoutMs: 10 * 60_000, labels: { ticket: "42" } },
  );
  for await (const { stream, bytes } of run.follow()) process[stream].write(bytes);
  const { exit, residue, emptiness } = await run.wait();
  console.log(exit?.reason, exit?.code, `${residue.length} leftovers killed`, emptiness);
  // end
}

test("the example of the README is the one in this file", async () => {
  const between = /\/\/ begin\n([\s\S]*?)\n {2}\/\/ end/.exec(
    await readFile(import.meta.filename, "utf8"),
  )?.[1];
  const shown = /```ts\n.*\n\n([\s\S]*?)```/.exec(await readFile("README.md", "utf8"))?.[1];
  expect(shown?.trim()).toBe(between?.replaceAll(/^ {2}/gm, ""));
});

test("the example of the README works", async () => {
  const logged = vi.spyOn(console, "log").mockImplementation(() => {});
  const written = vi.spyOn(process.stdout, "write").mockImplementation(() => true);
  // A fast `npm` that leaves a process behind.
  vi.stubEnv("PATH", `${cliFixture.home}:${process.env["PATH"]}`);
  await cliFixture.shell(
    `printf '#!/bin/sh\\necho "$@"; sleep 60 & exit 3' >"${cliFixture.home}/npm"; chmod +x "${cliFixture.home}/npm"`,
  );
  await example();
  expect(written).toHaveBeenCalledWith(Buffer.from("test\n"));
  expect(logged).toHaveBeenCalledWith("exit", 3, "1 leftovers killed", "proven");
});

test("the library exports exactly these names", () => {
  expect(Object.keys(library).toSorted()).toMatchInlineSnapshot(`
    [
      "AcpAuthRequired",
      "AcpClosed",
      "AcpNotHeld",
      "AcpNotRestartable",
      "AcpQueueFull",
      "AcpRefused",
      "AcpSessionClosed",
      "AcpTimeout",
      "AnchorUnusable",
      "BadInput",
      "CopyRefused",
      "END_REASONS",
      "ExecDenied",
      "ForeignOrigin",
      "GatewayError",
      "GatewayNotProven",
      "GatewaySilent",
      "GatewayUnreachable",
      "HoldfastError",
      "InboxFull",
      "InsideRun",
      "InstanceLocked",
      "InstanceTaken",
      "LeaseLost",
      "LimitUnavailable",
      "NotAdopted",
      "NotForgotten",
      "NotFound",
      "NotOurs",
      "NotSteering",
      "NothingToAbandon",
      "OperatorOnly",
      "PeerUnreachable",
      "RunExists",
      "RunNotFound",
      "SessionBusy",
      "SessionClosed",
      "SessionStorageFull",
      "SessionTaken",
      "SpawnFailed",
      "StaleEpoch",
      "StateCopied",
      "StateUnusable",
      "StdinClosed",
      "StdinFull",
      "StoreAway",
      "StoreOutdated",
      "StoreUnreadable",
      "SupervisorClosed",
      "TaskRefused",
      "TooLarge",
      "TooManyApprovals",
      "TooManyRequests",
      "TooManyStreams",
      "Unauthorized",
      "UnsafePath",
      "createClient",
      "defaults",
      "noOutputLimit",
      "openSupervisor",
      "watchdogProfiles",
    ]
  `);
});

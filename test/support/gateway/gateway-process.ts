import { spawn } from "node:child_process";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { cliWithDefaults, type DefaultOverrides } from "../cli/cli-fixture.js";
import { removeStateDirectory } from "../temporary-directory.js";
import { waitFor } from "../wait-for.js";

const cliPath = join(process.cwd(), "dist/cli/main.js");

/** A gateway in a process of its own. */
export interface GatewayProcess {
  readonly client: GatewayClient;
  readonly pid: number;
}

/** `numbers`: other default numbers of the product. */
export async function startGatewayProcess(home: string, numbers?: DefaultOverrides): Promise<GatewayProcess> {
  await startGateway(home, numbers === undefined ? cliPath : await writeEntryPoint(home, numbers));
  const reached = (await reachGateway(home)) ?? expect.fail("it does not answer");
  return { client: reached.client, pid: reached.status.pid };
}

/** An entry point of the command line with other default numbers. */
async function writeEntryPoint(home: string, numbers: DefaultOverrides): Promise<string> {
  const words = cliWithDefaults(numbers);
  const path = join(home, "main.mjs");
  const [script = ""] = words;
  await writeFile(
    path,
    `process.argv.splice(1, 1, ...${JSON.stringify(words)});\nawait import(${JSON.stringify(script)});\n`,
  );
  return path;
}

/** A state directory, and a bystander. */
export async function temporaryHomeWithBystander(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  onTestFinished(() => removeStateDirectory(home));
  const bystander = spawn("sleep", ["3018"], { stdio: "ignore" });
  onTestFinished(() => {
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
    bystander.kill("SIGKILL");
  });
  onTestFinished(async () => {
    const last = await reachGateway(home).catch(() => null);
    await last?.client.stop({ body: { runs: "terminate" } }).catch(() => undefined);
    await waitUntilStopped(home);
  });
  return home;
}

/** It has answered, and leaves. */
export async function waitUntilStopped(home: string): Promise<void> {
  await waitFor("no gateway answers", async () => (await reachGateway(home).catch(() => null)) === null);
}

export function killGateway(pid: number): void {
  // oxlint-disable-next-line no-restricted-properties -- the gateway this test started, asked for its own number
  process.kill(pid, "SIGKILL");
}

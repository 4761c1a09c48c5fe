import { spawn } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import type { GatewayClient } from "../../src/gateway/client.js";
import { reach, startGateway } from "../../src/gateway/start.js";
import { removeHome } from "../remove-home.js";

const main = join(process.cwd(), "dist/cli/main.js");

/** A gateway in a process of its own. */
export interface Live {
  readonly client: GatewayClient;
  readonly pid: number;
}

export async function gateway(home: string): Promise<Live> {
  await startGateway(home, main);
  const reached = (await reach(home)) ?? expect.fail("it does not answer");
  return { client: reached.client, pid: reached.status.pid };
}

/** A state directory, and a bystander. */
export async function place(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  onTestFinished(() => removeHome(home));
  const bystander = spawn("sleep", ["3018"], { stdio: "ignore" });
  onTestFinished(() => {
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
    bystander.kill("SIGKILL");
  });
  onTestFinished(async () => {
    const last = await reach(home).catch(() => null);
    await last?.client.stop({ body: { runs: "terminate" } }).catch(() => undefined);
    await left(home);
  });
  return home;
}

/** It has answered, and leaves. */
export async function left(home: string): Promise<void> {
  while ((await reach(home).catch(() => null)) !== null) await sleep(20);
}

export function kill(pid: number): void {
  // oxlint-disable-next-line no-restricted-properties -- the gateway this test started, asked for its own number
  process.kill(pid, "SIGKILL");
}

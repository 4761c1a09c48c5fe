import { renameSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeNativeCommand } from "../../../src/cli/shellenv/native-command.js";
import { defaults } from "../../../src/defaults.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { cliPath, nativePath, waitForText } from "../../support/cli/cli-fixture.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

class NativeFixture extends ForegroundFixture {
  static override async started(): Promise<NativeFixture> {
    const fixture = new NativeFixture(await mkdtemp(join(tmpdir(), "hf-")));
    await fixture.startGateway();
    await makeNativeCommand(fixture.home, cliPath);
    return fixture;
  }

  protected override get program(): readonly [string, ...string[]] {
    return [nativePath(this.home)];
  }

  /** Calls `work` while the gateway is stopped. */
  async whileStopped(work: () => Promise<void>): Promise<void> {
    const { pid } = await this.status();
    process.kill(pid, "SIGSTOP");
    try {
      await work();
    } finally {
      process.kill(pid, "SIGCONT");
    }
  }
}

const echoing = "echo up; read line; echo $line; exit 5";

describe.skipIf(process.platform === "win32")("the native client", LONG_TIMEOUT, () => {
  let fixture: NativeFixture;
  beforeAll(async () => {
    fixture = await NativeFixture.started();
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  test("keeps input, output and exit code while its gateway is killed and replaced", async () => {
    const { child, finished, runId } = await fixture.startForeground(
      "echo up; read line; echo $line; read line; echo $line; exit 5",
    );
    await fixture.killGateway();
    child.stdin.write("without a gateway\n");
    await waitForText(child.stdout, "without a gateway\n");
    await fixture.startGateway();
    child.stdin.write("with the next\n");
    expect(await finished).toMatchObject({
      code: 5,
      stdout: "up\nwithout a gateway\nwith the next\n",
      stderr: "",
    });
    expect(await fixture.record(runId)).toMatchObject({ state: "exited", exit: { code: 5 } });
  });

  test("reports the exit code of a run that ends without a gateway; the next gateway records it", async () => {
    const { child, finished, runId } = await fixture.startForeground(echoing);
    await fixture.killGateway();
    child.stdin.write("alone\n");
    expect(await finished).toMatchObject({ code: 5, stdout: "up\nalone\n", stderr: "" });
    await fixture.startGateway();
    expect((await fixture.waitForEnd(runId)).exit).toMatchObject({ reason: "exit", code: 5 });
  });

  test("reports the exit code within the time of one answer if the gateway does not answer", async () => {
    const { child, finished, runId } = await fixture.startForeground(echoing);
    await fixture.whileStopped(async () => {
      const began = performance.now();
      child.stdin.write("meanwhile\n");
      expect(await finished).toMatchObject({ code: 5, stdout: "up\nmeanwhile\n" });
      expect(performance.now() - began).toBeLessThan(scaled(8_000));
    });
    expect((await fixture.waitForEnd(runId)).exit).toMatchObject({ reason: "exit", code: 5 });
  });

  test("stops waiting for the record at an interrupt", async () => {
    const { child, finished, runId } = await fixture.startForeground(echoing);
    await fixture.whileStopped(async () => {
      const began = performance.now();
      child.stdin.write("meanwhile\n");
      await waitForText(child.stdout, "meanwhile\n");
      await waitFor("the command has ended", async () => (await fixture.membersOf(runId)).length === 0);
      child.kill("SIGINT");
      expect((await finished).code).toBe(5);
      expect(performance.now() - began).toBeLessThan(scaled(4_000));
    });
  });

  test("does not wait in the queue of connections of a gateway that does not answer", async () => {
    const held: Socket[] = [];
    await fixture.whileStopped(async () => {
      for (let at = 0; at < defaults.connections + 10; at += 1)
        held.push(connect(gatewaySocketPath(fixture.home)).on("error", () => undefined));
      await waitFor("the queue is full", () => held.some(({ errored }) => errored !== null));
      const { child, finished } = fixture.start("run", "--", "true");
      // Node tries longer, and reports the gateway.
      await waitFor("it has left the request to Node", async () =>
        (await readFile(`/proc/${child.pid ?? 0}/cmdline`, "utf8")).includes("cli.js"),
      );
      child.kill("SIGKILL");
      await finished;
    });
    for (const each of held) each.destroy();
  });

  test("leaves a request whose answer is lost to Node, and the command runs once", async () => {
    const path = gatewaySocketPath(fixture.home);
    const hidden = `${path}.hidden`;
    let lost = 0;
    // Forwards everything, but not the first answer to a request for a command.
    await using _proxy = await listen(path, hidden, (client, gateway) => {
      let asked = false;
      client.on("data", (part: Buffer) => {
        asked ||= lost === 0 && part.includes("POST /v1/exec");
        gateway.write(part);
      });
      gateway.on("data", (part: Buffer) => {
        if (!asked) return void client.write(part);
        lost += 1;
        client.destroy();
        gateway.destroy();
      });
    });
    const file = join(fixture.home, "times");
    const { code, stdout, stderr } = await fixture.holdfast(
      ...["run", "--", "sh", "-c", `echo x >>${file}; cat ${file}; exit 6`],
    );
    expect({ code, stdout, stderr, lost }).toEqual({ code: 6, stdout: "x\n", stderr: "", lost: 1 });
  });

  test("says that a service continues, and not that it is stopped", async () => {
    const { child, finished, runId } = await fixture.startForeground("echo up; exec sleep 7403");
    const reported = waitForText(child.stderr, "is a service now");
    await (await fixture.client()).adoptRun({ params: { runId }, body: {} });
    await reported;
    child.kill("SIGINT");
    const { code, stderr } = await finished;
    expect(code).toBe(130);
    expect(stderr).toBe(
      `holdfast: run ${runId} is a service now; it continues when this command ends\n` +
        `holdfast: run ${runId} is a service now, and continues\n`,
    );
    expect(await fixture.membersOf(runId)).toHaveLength(1);
    await (await fixture.client()).kill({ params: { runId }, body: { graceMs: 0 } });
  });

  test("that is killed leaves nothing of its run", async () => {
    const { child, finished, runId } = await fixture.startForeground("sleep 7404 & echo up; wait");
    expect(await fixture.membersOf(runId)).toHaveLength(2);
    child.kill("SIGKILL");
    await finished;
    const { exit, emptiness } = await fixture.waitForEnd(runId);
    expect({ exit, emptiness }).toMatchObject({
      exit: { reason: "manual-cancel", actor: "caller (left)" },
      emptiness: "proven",
    });
    expect(await fixture.membersOf(runId)).toEqual([]);
  });
});

/** Listens in place of the gateway, and connects each client with it. */
async function listen(
  path: string,
  hidden: string,
  pair: (client: Socket, gateway: Socket) => void,
): Promise<AsyncDisposable> {
  renameSync(path, hidden);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const gateway = connect(hidden);
    for (const [one, other] of [
      [client, gateway],
      [gateway, client],
    ] as const) {
      sockets.add(one);
      one.on("error", () => undefined).on("close", () => other.destroy());
    }
    pair(client, gateway);
  });
  await new Promise<void>((resolve) => void server.listen(path, resolve));
  return {
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      renameSync(hidden, path);
    },
  };
}

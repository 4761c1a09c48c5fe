import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { encodeMessage } from "../../src/anchor/protocol/message-codec.js";
import { PROTOCOL } from "../../src/anchor/protocol/messages.js";
import { AnchorUnusable, StaleEpoch } from "../../src/errors.js";
import { FakePeer, hostWithFakeLauncher, welcomeFrame } from "../support/anchor/fake-peer.js";

const RUN = { instanceId: "i", runId: "run_a" };

/** A host and a fake anchor of `run_a`, which answers HELLO with `answer`; null: with the end of the connection. */
async function hostAndAnchor(answer: Buffer | null) {
  const fixture = await hostWithFakeLauncher();
  await writeFile(join(fixture.runDir, "key"), "k3y\n");
  const anchor = await FakePeer.listen(join(fixture.runDir, "sock"), (_message, connection) =>
    answer === null ? connection.socket.destroy() : connection.send(answer),
  );
  onTestFinished(() => anchor[Symbol.asyncDispose]());
  return { ...fixture, anchor };
}

test("attach sends the key of the run directory and the requested epoch, and starts no launcher", async () => {
  const { host, launcher, anchor } = await hostAndAnchor(
    welcomeFrame({ epoch: 4, phase: 2, code: 0, reason: "shutdown", actor: "a", requestId: "q" }),
  );
  const link = await host.attach(RUN, 4);
  expect(link?.welcome).toMatchObject({
    phase: "running",
    highestEpoch: 4,
    leader: { code: 0, signal: null },
    firstStop: { reason: "shutdown", actor: "a", requestId: "q" },
  });
  expect(anchor.connections[0]?.received[0]).toEqual({
    name: "hello",
    protocol: PROTOCOL,
    runId: "run_a",
    instanceId: "i",
    incarnation: "inc",
    epoch: 4,
    key: "k3y",
  });
  expect(launcher.connections).toHaveLength(0);
});

test("attach is null without a directory, key, socket or listener, and if the connection ends without an answer", async () => {
  const { host, runDir } = await hostWithFakeLauncher();
  expect(await host.attach({ ...RUN, runId: "run_z" }, 1)).toBeNull();
  expect(await host.attach(RUN, 1)).toBeNull();
  await writeFile(join(runDir, "key"), "k");
  expect(await host.attach(RUN, 1)).toBeNull();
  await writeFile(join(runDir, "sock"), "");
  expect(await host.attach(RUN, 1)).toBeNull();
  await rm(join(runDir, "sock"));
  const silent = await hostAndAnchor(null);
  expect(await silent.host.attach(RUN, 1)).toBeNull();
});

test.each([
  ["stale-epoch", StaleEpoch, { runId: "run_a", highestEpoch: 12 }],
  ["bad-key", AnchorUnusable, { code: "ANCHOR_UNUSABLE" }],
])("attach that is refused with %s rejects", async (codeName, type, fields) => {
  const { host } = await hostAndAnchor(
    encodeMessage("refused", { codeName, message: "no", protocol: null, epoch: 12 }),
  );
  const attach = host.attach(RUN, 3);
  await expect(attach).rejects.toBeInstanceOf(type);
  await expect(attach).rejects.toMatchObject(fields);
});

import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { parseSigningKey, signedHeaders, webhookChannel } from "../../src/channels/webhook.js";
import {
  channelEntry,
  deliveryFailure,
  NEVER_ABORTED,
  type ReceivedRequest,
  sampleNotification,
  startHttpReceiver,
} from "../support/http-receiver.js";

const OLD = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const NEW = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;

let directory = "";
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "hf-"));
  onTestFinished(() => rm(directory, { recursive: true }));
});

async function secretFile(name: string, secret: string): Promise<{ readonly file: string }> {
  const file = join(directory, name);
  await writeFile(file, `${secret}\n`, { mode: 0o600 });
  return { file };
}

/** As a receiver does it that knows one secret. */
function accepts({ headers, body }: ReceivedRequest, secret: string): boolean {
  const signed = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body}`;
  const mine = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
    .update(signed)
    .digest("base64");
  return String(headers["webhook-signature"]).split(" ").includes(`v1,${mine}`);
}

test("signs as the reference library of Standard Webhooks does", () => {
  const headers = signedHeaders("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}', [
    parseSigningKey("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
  ]);
  expect(headers["webhook-signature"]).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
});

test("delivers the notification with its id, signed with every current secret", async () => {
  const there = await startHttpReceiver();
  const file = await secretFile("secret", OLD);
  const before = webhookChannel(channelEntry("webhook", { url: `${there.url}/x`, secrets: [file] }));
  expect(await before.deliver(sampleNotification(), "ops", NEVER_ABORTED)).toBe("200");
  const [first] = there.received as [ReceivedRequest];
  expect(first).toMatchObject({ method: "POST", path: "/x" });
  expect(first.headers).toMatchObject({
    "webhook-id": "task-terminal:tsk_1",
    "content-type": "application/json",
  });
  expect(Math.abs(Number(first.headers["webhook-timestamp"]) - Date.now() / 1_000)).toBeLessThan(60);
  expect([accepts(first, OLD), accepts(first, NEW)]).toEqual([true, false]);
  const { at: _, kind: __, ...data } = sampleNotification();
  expect(JSON.parse(first.body)).toEqual({
    type: "task.terminal",
    timestamp: "2026-11-15T00:00:00.000Z",
    data: { ...data, address: "ops" },
  });
  // While a secret is changed, receivers that know either accept; the file is read each time.
  await secretFile("secret", NEW);
  await before.deliver(sampleNotification(), null, NEVER_ABORTED);
  expect([
    accepts(there.received[1] as ReceivedRequest, OLD),
    accepts(there.received[1] as ReceivedRequest, NEW),
  ]).toEqual([false, true]);
  const secrets = [file, await secretFile("old", OLD)];
  await webhookChannel(channelEntry("webhook", { url: there.url, secrets })).deliver(
    sampleNotification(),
    null,
    NEVER_ABORTED,
  );
  expect([
    accepts(there.received[2] as ReceivedRequest, OLD),
    accepts(there.received[2] as ReceivedRequest, NEW),
  ]).toEqual([true, true]);
});

test("texts are truncated between characters", async () => {
  const there = await startHttpReceiver();
  const secrets = [await secretFile("secret", NEW)];
  const long = "😀".repeat(1_000_000);
  const huge = sampleNotification({ summary: long, text: `x${long}`, error: long, label: long });
  await webhookChannel(channelEntry("webhook", { url: there.url, secrets })).deliver(
    huge,
    null,
    NEVER_ABORTED,
  );
  const { body } = there.received[0] as ReceivedRequest;
  expect(body.length).toBeLessThan(100_000);
  expect(body).not.toMatch(/\p{Cs}/u);
});

describe("an answer of", () => {
  const answered = async (status: number, headers: Record<string, string> = {}): Promise<unknown> => {
    const there = await startHttpReceiver((_, response) => response.writeHead(status, headers).end("said"));
    const secrets = [await secretFile("secret", NEW)];
    const channel = webhookChannel(channelEntry("webhook", { url: there.url, secrets }));
    return channel.deliver(sampleNotification(), null, NEVER_ABORTED);
  };

  test.each([200, 201, 202, 204, 299])("%i is a delivery", async (status) => {
    expect(await answered(status)).toBe(String(status));
  });

  test.each([400, 401, 403, 404, 413, 429, 500, 502, 503])("%i can be retried", async (status) => {
    const failure = await deliveryFailure(answered(status));
    expect(failure.message).toMatch(new RegExp(`^127\\.0\\.0\\.1:\\d+ answered ${status}: said$`));
    expect(failure).toMatchObject({ permanent: false, retryAfterMs: null });
  });

  test("410 is permanent", async () => {
    expect((await deliveryFailure(answered(410))).permanent).toBe(true);
  });

  test("429 or 503 with Retry-After sets the delay", async () => {
    for (const status of [429, 503])
      expect((await deliveryFailure(answered(status, { "retry-after": "7" }))).retryAfterMs).toBe(7_000);
  });
});

test("a secret that a receiver repeats is redacted, also without its prefix", async () => {
  const said = `not signed with ${NEW}, that is ${NEW.slice(6)}`;
  const { url } = await startHttpReceiver((_, response) => response.writeHead(401).end(said));
  const secrets = [await secretFile("secret", NEW)];
  const failure = await deliveryFailure(
    webhookChannel(channelEntry("webhook", { url, secrets })).deliver(
      sampleNotification(),
      null,
      NEVER_ABORTED,
    ),
  );
  expect(failure.message).toMatch(/ answered 401: not signed with \*\*\*, that is \*\*\*$/);
});

describe("a secret that", () => {
  const delivered = (source: unknown, url: string): Promise<unknown> =>
    webhookChannel(channelEntry("webhook", { url, secrets: [source] })).deliver(
      sampleNotification(),
      null,
      NEVER_ABORTED,
    );

  test("is too short, not base64 or of another kind is refused and not shown", async () => {
    const { url, received } = await startHttpReceiver();
    for (const hush of [
      "whsec_c2hvcnQ=",
      `whsec_${"*".repeat(40)}`,
      "hush".repeat(10),
      `whsec_${"A".repeat(100)}`,
    ]) {
      const failure = await deliveryFailure(delivered(await secretFile("secret", hush), url));
      expect(failure.message).toBe(
        "the secret of the webhook must be whsec_ followed by 24 to 64 bytes in base64",
      );
    }
    expect(received).toEqual([]);
  });

  test("is missing, empty, not a file or too large is reported and can be retried", async () => {
    const { url, received } = await startHttpReceiver();
    const large = join(directory, "large");
    await writeFile(large, "x".repeat(10_000));
    const cases = [
      [join(directory, "none"), "ENOENT"],
      [directory, "it is not a regular file"],
      ["/dev/zero", "it is not a regular file"],
      [large, "it is longer than 4096 bytes"],
      [(await secretFile("empty", "")).file, "it is empty"],
    ];
    for (const [file, why] of cases) {
      const failure = await deliveryFailure(delivered({ file }, url));
      expect(failure.message).toBe(`the secret in ${file} cannot be used: ${why}`);
      expect(failure.permanent).toBe(false);
    }
    const unset = await deliveryFailure(delivered({ env: "NO_SUCH_SECRET" }, url));
    expect(unset.message).toBe("the variable NO_SUCH_SECRET is not set in this environment");
    expect(unset.permanent).toBe(false);
    expect(received).toEqual([]);
  });
});

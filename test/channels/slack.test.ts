import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Channel } from "../../src/channels/channel.js";
import { slackChannel } from "../../src/channels/slack.js";
import { defaults } from "../../src/defaults.js";
import {
  channelEntry,
  deliveryFailure,
  NEVER_ABORTED,
  startHttpReceiver,
  sampleNotification,
} from "../support/http-receiver.js";

const PATH = "/services/T0000/B0000/hushhushhush";

async function channelTo(address: string, fields: object = {}): Promise<Channel> {
  const directory = await mkdtemp(join(tmpdir(), "hf-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const file = join(directory, "url");
  await writeFile(file, address);
  return slackChannel(channelEntry("slack", { url: { file }, ...fields }));
}

test("compatible services find no mention and no disguised link in a Slack message", async () => {
  const { url, received } = await startHttpReceiver();
  const channel = await channelTo(`${url}${PATH}`);
  await channel.deliver(
    sampleNotification({ text: "@everyone @here: [done](https://x) ![](https://x) [a][b] a @ b" }),
    null,
    NEVER_ABORTED,
  );
  expect(JSON.parse(received[0]?.body ?? "")).toMatchObject({
    text: "@\u200Beveryone @\u200Bhere: [done]\u200B(https://x) ![]\u200B(https://x) [a]\u200B[b] a @ b",
  });
});

test("text cannot form links, mentions or entities, and an emoji is not split", async () => {
  const { url, received } = await startHttpReceiver();
  const channel = await channelTo(`${url}${PATH}`);
  expect(
    await channel.deliver(
      sampleNotification({ text: "<!channel> a && b <https://x|y> &lt;" }),
      null,
      NEVER_ABORTED,
    ),
  ).toBeNull();
  await channel.deliver(sampleNotification({ text: `x${"😀".repeat(10_000)}` }), "#ops", NEVER_ABORTED);
  const [first, second] = received.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
  expect(received[0]?.path).toBe(PATH);
  expect(first).toEqual({
    text: "&lt;!channel&gt; a &amp;&amp; b &lt;https://x|y&gt; &amp;lt;",
    mrkdwn: false,
    unfurl_links: false,
    unfurl_media: false,
  });
  expect(second?.["channel"]).toBe("#ops");
  const text = String(second?.["text"]);
  expect(text.length).toBeLessThanOrEqual(defaults.slackTextChars);
  expect(text).not.toMatch(/\p{Cs}/u);
});

test.each([
  [400, "invalid_payload", true],
  [403, "action_prohibited", true],
  [404, "no_service", true],
  [410, "channel_is_archived", true],
  [429, "rate_limited", false],
  [500, "rollup_error", false],
])("an answer of %i %s is reported; permanent: %s", async (status, said, permanent) => {
  const { url } = await startHttpReceiver((request, response) =>
    response.writeHead(status, { "retry-after": "30" }).end(`${said} ${request.url}`),
  );
  const failure = await deliveryFailure(
    (await channelTo(`${url}${PATH}`)).deliver(sampleNotification(), null, NEVER_ABORTED),
  );
  expect(failure.message).toMatch(new RegExp(`answered ${status}: ${said} /`));
  expect(failure.message).not.toContain("hush");
  expect(failure).toMatchObject({ permanent, retryAfterMs: 30_000 });
});

test("an invalid address is not shown", async () => {
  const failure = await deliveryFailure(
    (await channelTo("hush")).deliver(sampleNotification(), null, NEVER_ABORTED),
  );
  expect(failure.message).toBe(
    "the secret of the Slack webhook is not an address of the form https://host/path",
  );
});

test.each(["http://hooks.example.com/hush", "https://10.0.0.7/hush"])(
  "an address that may not be reached may be put right: %s",
  async (address) => {
    const entry = { "allow-http": false, "allow-networks": [] };
    const failure = await deliveryFailure(
      (await channelTo(address, entry)).deliver(sampleNotification(), null, NEVER_ABORTED),
    );
    expect(failure.message).toMatch(/allow-http is not set|is not a public address/);
    expect(failure.message).not.toContain("hush");
    expect(failure.permanent).toBe(false);
  },
);

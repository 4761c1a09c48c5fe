import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { telegramChannel } from "../../src/channels/telegram.js";
import { defaults } from "../../src/defaults.js";
import { startTelegramServer } from "./telegram-server.js";
import {
  channelEntry,
  deliveryFailure,
  NEVER_ABORTED,
  startHttpReceiver,
  sampleNotification,
} from "../support/http-receiver.js";

const TOKEN = `123456:${"hush".repeat(8)}xyz`;
const VARIABLE = "TEST_TELEGRAM_TOKEN";
beforeEach(() => void (process.env[VARIABLE] = TOKEN));
afterEach(() => void delete process.env[VARIABLE]);

const channelAt = (root: string, fields: Readonly<Record<string, unknown>> = {}) =>
  telegramChannel(channelEntry("telegram", { root, token: { env: VARIABLE }, chat: "42", ...fields }));

describe("at the Bot API", () => {
  test("a message arrives as plain text in its chat and thread, and its id is the receipt", async () => {
    const api = await startTelegramServer();
    const text = "*bold* <b>x</b> _y_ [a](b) & done";
    const receipt = await channelAt(api.config.apiURL).deliver(
      sampleNotification({ text }),
      null,
      NEVER_ABORTED,
    );
    await channelAt(`${api.config.apiURL}/`).deliver(
      sampleNotification(),
      "-1001234567890/17",
      NEVER_ABORTED,
    );
    const [first, second] = api.storage.botMessages;
    expect(first).toMatchObject({ botToken: TOKEN, message: { chat_id: "42", text } });
    expect(receipt).toBe(String(first?.messageId));
    expect(first?.message).not.toHaveProperty("parse_mode");
    expect(first?.message).not.toHaveProperty("message_thread_id");
    expect(second?.message).toMatchObject({ chat_id: "-1001234567890", message_thread_id: 17 });
  });

  test("a long message is truncated between characters", async () => {
    const api = await startTelegramServer();
    const long = sampleNotification({ text: `x${"😀".repeat(5_000)}` });
    await channelAt(api.config.apiURL).deliver(long, null, NEVER_ABORTED);
    const text = String(api.storage.botMessages[0]?.message["text"]);
    expect(text.length).toBeLessThanOrEqual(defaults.telegramTextChars);
    expect(text.length).toBeGreaterThan(defaults.telegramTextChars - 3);
    expect(text).not.toMatch(/\p{Cs}/u);
  });

  test("a wrong root reports the answer of the server without the address", async () => {
    const api = await startTelegramServer();
    const failure = await deliveryFailure(
      channelAt(`${api.config.apiURL}/wrong`).deliver(sampleNotification(), null, NEVER_ABORTED),
    );
    expect(failure.message).toMatch(/^127\.0\.0\.1:\d+ answered \d+: /);
    expect(failure.message).not.toContain("hush");
    expect(api.storage.botMessages).toEqual([]);
  });
});

const refusal = (status: number, description: string, parameters = {}) =>
  startHttpReceiver((_, response) =>
    response
      .writeHead(status, { "content-type": "application/json" })
      .end(JSON.stringify({ ok: false, error_code: status, description, parameters })),
  );

test.each([
  [400, "Bad Request: chat not found", true],
  [401, "Unauthorized", true],
  [403, "Forbidden: bot was blocked by the user", true],
  [404, "Not Found", true],
  [500, "Internal Server Error", false],
])("an answer of %i %s is reported; permanent: %s", async (status, description, permanent) => {
  const { url } = await refusal(status, description);
  const failure = await deliveryFailure(channelAt(url).deliver(sampleNotification(), null, NEVER_ABORTED));
  expect(failure.message).toMatch(new RegExp(`^127\\.0\\.0\\.1:\\d+ answered ${status}: ${description}$`));
  expect(failure).toMatchObject({ permanent, retryAfterMs: null });
});

test("a rate limit is retried after the delay of the API", async () => {
  const { url } = await refusal(429, "Too Many Requests: retry after 14", { retry_after: 14 });
  const failure = await deliveryFailure(channelAt(url).deliver(sampleNotification(), null, NEVER_ABORTED));
  expect(failure).toMatchObject({ permanent: false, retryAfterMs: 14_000 });
});

test.each([400, 401, 403, 404])(
  "%i of something else than the Bot API may be another one later",
  async (status) => {
    const { url } = await startHttpReceiver((_, response) =>
      response.writeHead(status).end("<html>log in</html>"),
    );
    const failure = await deliveryFailure(channelAt(url).deliver(sampleNotification(), null, NEVER_ABORTED));
    expect(failure.permanent).toBe(false);
  },
);

test("no error message contains the token", async () => {
  const echo = await startHttpReceiver((request, response) =>
    response.writeHead(502).end(`${request.url} ${decodeURIComponent(request.url ?? "")} ${TOKEN.slice(7)}`),
  );
  const inJson = await refusal(400, `no bot ${TOKEN}`);
  const okButNot = await startHttpReceiver((_, response) => response.end("<html>log in</html>"));
  for (const root of [echo.url, inJson.url, okButNot.url, "http://127.0.0.1:1", "http://nowhere.invalid"]) {
    const failure = await deliveryFailure(channelAt(root).deliver(sampleNotification(), null, NEVER_ABORTED));
    for (let error: unknown = failure; error instanceof Error; error = error.cause)
      expect(error.message).not.toContain("hush");
  }
  expect(
    (await deliveryFailure(channelAt(okButNot.url).deliver(sampleNotification(), null, NEVER_ABORTED)))
      .permanent,
  ).toBe(false);
});

test("an invalid token or chat sends nothing", async () => {
  const { url, received } = await startHttpReceiver();
  const noChat = await deliveryFailure(
    channelAt(url, { chat: undefined }).deliver(sampleNotification(), null, NEVER_ABORTED),
  );
  expect(noChat.message).toBe("neither the notification nor the config has a Telegram chat");
  expect(noChat.permanent).toBe(true);
  for (const address of ["", "../x", "1/2/3", "@x", "42?text=x"])
    expect(
      (await deliveryFailure(channelAt(url).deliver(sampleNotification(), address, NEVER_ABORTED))).permanent,
    ).toBe(true);
  for (const token of ["hush", "1:../../hush", `123456:${"hush/".repeat(8)}`]) {
    process.env[VARIABLE] = token;
    const failure = await deliveryFailure(channelAt(url).deliver(sampleNotification(), null, NEVER_ABORTED));
    expect(failure.message).toBe("the token of the Telegram bot does not have the form of one (123456:ABC…)");
  }
  expect(received).toEqual([]);
});

describe("the typing indicator", () => {
  test("is shown in the chat and thread if configured", async () => {
    const { url, received } = await startHttpReceiver((_, response) =>
      response.end('{"ok":true,"result":true}'),
    );
    expect(channelAt(url)).not.toHaveProperty("typing");
    const channel = channelAt(url, { typing: true });
    await channel.typing?.(null, NEVER_ABORTED);
    await channel.typing?.("-1001234567890/17", NEVER_ABORTED);
    expect(received.map(({ path }) => path)).toEqual([
      `/bot${TOKEN}/sendChatAction`,
      `/bot${TOKEN}/sendChatAction`,
    ]);
    expect(received.map(({ body }) => JSON.parse(body) as unknown)).toEqual([
      { chat_id: "42", action: "typing" },
      { chat_id: "-1001234567890", message_thread_id: 17, action: "typing" },
    ]);
  });

  test("obeys the network rules of messages", async () => {
    const { url, received } = await startHttpReceiver();
    const shut = channelAt(url, { typing: true, "allow-networks": [] });
    const failure = await deliveryFailure(shut.typing?.(null, NEVER_ABORTED) ?? Promise.resolve());
    expect(failure.message).toMatch(/is not a public address/);
    expect(received).toEqual([]);
  });
});

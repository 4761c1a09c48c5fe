import { z } from "zod";
import { type ChannelEntryOf, TELEGRAM_ADDRESS } from "../config/channels.js";
import { defaults } from "../defaults.js";
import { DeliveryFailed } from "../tasks/delivery-attempt.js";
import { truncate } from "../text/truncate.js";
import type { Channel } from "./channel.js";
import { boundRetryAfter, postJson, rejectionError } from "./http-post.js";
import { readSecret, redactSecrets } from "./secrets.js";

/** Wrong chat, text or token, or the bot was blocked or removed. */
const PERMANENT_STATUSES = [400, 401, 403, 404];

/** The form of a bot token, as @BotFather issues it. */
export const TELEGRAM_TOKEN = /^\d{1,20}:[\w-]{20,100}$/;

const errorReply = z.object({
  ok: z.literal(false),
  description: z.string().default(""),
  parameters: z.object({ retry_after: z.number().optional() }).default({}),
});
const messageResult = z.object({ message_id: z.int() });

/** The Telegram Bot API. It has no message ids for retries, so a repeat is shown twice. */
export function telegramChannel(entry: ChannelEntryOf<"telegram">): Channel {
  const deliver: Channel["deliver"] = async ({ text }, address, signal) => {
    // Without parse_mode nothing in the text is interpreted as markup.
    const fields = {
      text: truncate(text, defaults.telegramTextChars),
      link_preview_options: { is_disabled: true },
    };
    return String(
      (await callBotApi(entry, "sendMessage", address, fields, messageResult, signal)).message_id,
    );
  };
  if (!entry.typing) return { deliver };
  const typing = async (address: string | null, signal: AbortSignal): Promise<void> => {
    await callBotApi(entry, "sendChatAction", address, { action: "typing" }, z.literal(true), signal);
  };
  return { deliver, typing };
}

async function callBotApi<Result>(
  entry: ChannelEntryOf<"telegram">,
  method: string,
  address: string | null,
  fields: Readonly<Record<string, unknown>>,
  result: z.ZodType<Result>,
  signal: AbortSignal,
): Promise<Result> {
  const { chat, thread } = parseChatAddress(address ?? entry.chat ?? "");
  const token = await readSecret(entry.token);
  if (!TELEGRAM_TOKEN.test(token))
    throw new DeliveryFailed("the token of the Telegram bot does not have the form of one (123456:ABC…)");
  const chatFields = { chat_id: chat, ...(thread === null ? {} : { message_thread_id: thread }) };
  const secrets = [token, token.slice(token.indexOf(":") + 1)];
  const url = new URL(`${entry.root.replace(/\/$/, "")}/bot${token}/${method}`);
  const message = { url, body: JSON.stringify({ ...chatFields, ...fields }), rules: entry, secrets };
  const answer = await postJson(message, signal);
  const reply = z.union([z.object({ ok: z.literal(true), result }), errorReply]);
  const parsed = reply.safeParse(parseJson(answer.body)).data;
  if (parsed?.ok === true) return parsed.result;
  // The answer is not from the Bot API, so its status says nothing about the bot or the chat.
  if (parsed === undefined) throw rejectionError(message, answer, []);
  const excerpt = truncate(redactSecrets(parsed.description, secrets), defaults.channelExcerptChars);
  const { retry_after: seconds } = parsed.parameters;
  const retryAfterMs = seconds === undefined ? answer.retryAfterMs : boundRetryAfter(seconds * 1_000);
  throw rejectionError(message, { ...answer, excerpt, retryAfterMs }, PERMANENT_STATUSES);
}

function parseChatAddress(address: string): { readonly chat: string; readonly thread: number | null } {
  const [, chat, thread] = TELEGRAM_ADDRESS.exec(address) ?? [];
  if (chat !== undefined) return { chat, thread: thread === undefined ? null : Number(thread) };
  throw new DeliveryFailed("neither the notification nor the config has a Telegram chat", {
    permanent: true,
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

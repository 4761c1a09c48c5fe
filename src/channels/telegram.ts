import { z } from "zod";
import { type ChannelEntryOf, TELEGRAM_ADDRESS } from "../config/channels.js";
import { defaults } from "../defaults.js";
import { DeliveryFailed } from "../tasks/delivery.js";
import { truncate } from "../text/truncate.js";
import type { Channel } from "./channel.js";
import { boundRetryAfter, postJson, rejectionError } from "./http-post.js";
import { readSecret, redactSecrets } from "./secrets.js";

/** A wrong chat or text, a wrong token, a bot that was blocked or thrown out. */
const PERMANENT_STATUSES = [400, 401, 403, 404];

/** As a bot's father hands them out. */
export const TELEGRAM_TOKEN = /^\d{1,20}:[\w-]{20,100}$/;

const errorReply = z.object({
  ok: z.literal(false),
  description: z.string().default(""),
  parameters: z.object({ retry_after: z.number().optional() }).default({}),
});
const messageResult = z.object({ message_id: z.int() });

/** The Bot API. It knows no ids: a repeat is seen twice. */
export function telegramChannel(entry: ChannelEntryOf<"telegram">): Channel {
  const deliver: Channel["deliver"] = async ({ text }, address, signal) => {
    // Without parse_mode: whatever the text holds, it is text.
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
    throw new DeliveryFailed("the Telegram bot's token does not look like one (123456:ABC…)");
  const chatFields = { chat_id: chat, ...(thread === null ? {} : { message_thread_id: thread }) };
  const secrets = [token, token.slice(token.indexOf(":") + 1)];
  const url = new URL(`${entry.root.replace(/\/$/, "")}/bot${token}/${method}`);
  const message = { url, body: JSON.stringify({ ...chatFields, ...fields }), rules: entry, secrets };
  const answer = await postJson(message, signal);
  const reply = z.union([z.object({ ok: z.literal(true), result }), errorReply]);
  const said = reply.safeParse(parseJson(answer.body)).data;
  if (said?.ok === true) return said.result;
  // Something else than the Bot API has answered, which knows nothing of bots and chats.
  if (said === undefined) throw rejectionError(message, answer, []);
  const excerpt = truncate(redactSecrets(said.description, secrets), defaults.channelExcerptChars);
  const { retry_after: seconds } = said.parameters;
  const asked = seconds === undefined ? answer.retryAfterMs : boundRetryAfter(seconds * 1_000);
  throw rejectionError(message, { ...answer, excerpt, retryAfterMs: asked }, PERMANENT_STATUSES);
}

function parseChatAddress(address: string): { readonly chat: string; readonly thread: number | null } {
  const [, chat, thread] = TELEGRAM_ADDRESS.exec(address) ?? [];
  if (chat !== undefined) return { chat, thread: thread === undefined ? null : Number(thread) };
  throw new DeliveryFailed("no Telegram chat is named: neither with the notification nor in the config", {
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

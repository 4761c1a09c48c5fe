import { isAbsolute } from "node:path";
import { z } from "zod";
import { id, variable, word } from "../agents/entry.js";
import { defaults } from "../defaults.js";
import { isNetwork } from "./network.js";
import { TELEGRAM_ADDRESS } from "./telegram-address.js";

/** Where a secret is: never in the config itself, which is shown and copied. What stands there instead is not said back. */
const secret = z.union(
  [
    z.strictObject({ env: variable }),
    z.strictObject({ file: z.string().refine(isAbsolute, "must be an absolute path") }),
  ],
  'must be { env = "NAME" } or { file = "/absolute/path" }: a secret does not stand in this file',
);
export type SecretSource = z.output<typeof secret>;

const httpAddress = z
  .string()
  .max(2_048)
  .refine(
    isHttpAddress,
    "must be an address as https://host/path, without user, password and what follows a #",
  );

const outgoing = {
  "timeout-ms": z.int().min(100).max(defaults.channelMostMs).default(defaults.channelAnswerMs),
  /** Without it, nothing is sent unencrypted. */
  "allow-http": z.boolean().default(false),
  /** Without it, nothing is sent to addresses that are not public. */
  "allow-networks": z
    .array(z.string().refine(isNetwork, "must be an address or a network, as 10.0.0.7 or 10.0.0.0/8"))
    .max(100)
    .default([]),
};
const NEEDS_HTTPS = "is not https; allow-http = true sends it unencrypted all the same";
const encrypted = (address: string, { "allow-http": http }: { readonly "allow-http": boolean }): boolean =>
  http || !isHttpAddress(address) || new URL(address).protocol === "https:";

const webhook = z
  .strictObject({
    kind: z.literal("webhook"),
    url: httpAddress,
    /** The first is the newest; a receiver that knows any of them accepts. */
    secrets: z.array(secret).min(1).max(5),
    ...outgoing,
  })
  .refine((entry) => encrypted(entry.url, entry), { path: ["url"], message: NEEDS_HTTPS });

const telegram = z
  .strictObject({
    kind: z.literal("telegram"),
    token: secret,
    /** For a notification that does not say otherwise. */
    chat: z
      .string()
      .regex(TELEGRAM_ADDRESS, "must be a chat's number or @name, with /thread where it has threads")
      .optional(),
    root: httpAddress.default("https://api.telegram.org"),
    /** Whether the chat sees that an agent is at work. */
    typing: z.boolean().default(false),
    ...outgoing,
  })
  .refine((entry) => encrypted(entry.root, entry), { path: ["root"], message: NEEDS_HTTPS });

/** The address is a secret: who has it may write. */
const slack = z.strictObject({ kind: z.literal("slack"), url: secret, ...outgoing });

const argv = z.array(word).min(1).max(256);
const programLimit = z.int().min(100).max(defaults.channelMostMs).default(defaults.channelProgramMs);
const command = z.strictObject({ kind: z.literal("command"), argv, "timeout-ms": programLimit });
const desktop = z.strictObject({ kind: z.literal("desktop"), "timeout-ms": programLimit });
const bell = z.strictObject({ kind: z.literal("bell") });

const kinds = { webhook, telegram, slack, command, desktop, bell };
export const CHANNEL_KINDS = Object.keys(kinds) as readonly (keyof typeof kinds)[];

/** `[channels.<name>]`: where notifications can go. */
export const channelTablesSchema = z.record(
  id,
  z.discriminatedUnion("kind", [webhook, telegram, slack, command, desktop, bell], {
    error: `must be one of ${CHANNEL_KINDS.join(", ")}`,
  }),
);

/** What may stand in a table of this kind. */
export function channelKeys(kind: unknown): readonly string[] {
  const known = CHANNEL_KINDS.find((each) => each === kind);
  return known === undefined ? [] : Object.keys(kinds[known].shape);
}

export type ChannelEntry = z.output<typeof channelTablesSchema>[string];
export type ChannelKind = ChannelEntry["kind"];
export type EntryOf<Kind extends ChannelKind> = Extract<ChannelEntry, { readonly kind: Kind }>;
export type Outgoing = Pick<EntryOf<"webhook">, keyof typeof outgoing>;

/** Variables that hold secrets of channels: whoever has them can write there. */
export function secretVariables(entries: Readonly<Record<string, ChannelEntry>>): readonly string[] {
  return Object.values(entries)
    .flatMap(secretsOf)
    .flatMap((source) => ("env" in source ? [source.env] : []));
}

function secretsOf(entry: ChannelEntry): readonly SecretSource[] {
  switch (entry.kind) {
    case "webhook":
      return entry.secrets;
    case "telegram":
      return [entry.token];
    case "slack":
      return [entry.url];
    case "command":
    case "desktop":
    case "bell":
      return [];
  }
}

export function isHttpAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, hash } = new URL(text);
  return (protocol === "https:" || protocol === "http:") && username + password + hash === "";
}

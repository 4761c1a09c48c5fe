import { isAbsolute } from "node:path";
import { z } from "zod";
import { defaults } from "../defaults.js";
import { isNetwork } from "./network-addresses.js";
import { argument, tableName, variableName } from "./agents.js";

/** A chat by its number or public name, and a thread in it: `-1001234567890/17`. */
export const TELEGRAM_ADDRESS = /^(-?\d{1,19}|@[A-Za-z]\w{3,63})(?:\/(\d{1,15}))?$/;

/** The location of a secret. The configuration never contains the secret itself, because it is shown and copied. */
const secret = z.union(
  [
    z.strictObject({ env: variableName }),
    z.strictObject({ file: z.string().refine(isAbsolute, "must be an absolute path") }),
  ],
  'must be { env = "NAME" } or { file = "/absolute/path" }: this file must not contain a secret',
);
export type SecretSource = z.output<typeof secret>;

const httpUrl = z
  .string()
  .max(2_048)
  .refine(isHttpUrl, "must be an address as https://host/path, without user, password and fragment (#…)");

const httpOptions = {
  "timeout-ms": z.int().min(100).max(defaults.channelMostMs).default(defaults.channelAnswerMs),
  /** Allows unencrypted connections. */
  "allow-http": z.boolean().default(false),
  /** Networks that are not public and may be used. */
  "allow-networks": z
    .array(z.string().refine(isNetwork, "must be an address or a network, as 10.0.0.7 or 10.0.0.0/8"))
    .max(100)
    .default([]),
};
const NEEDS_HTTPS = "is not https; allow-http = true allows to send it unencrypted";
const isEncrypted = (address: string, { "allow-http": http }: { readonly "allow-http": boolean }): boolean =>
  http || !isHttpUrl(address) || new URL(address).protocol === "https:";

const webhook = z
  .strictObject({
    kind: z.literal("webhook"),
    url: httpUrl,
    /** The first is the newest; a receiver that knows any of them accepts. */
    secrets: z.array(secret).min(1).max(5),
    ...httpOptions,
  })
  .refine((entry) => isEncrypted(entry.url, entry), { path: ["url"], message: NEEDS_HTTPS });

const telegram = z
  .strictObject({
    kind: z.literal("telegram"),
    token: secret,
    /** The default of a notification without an address. */
    chat: z
      .string()
      .regex(TELEGRAM_ADDRESS, "must be a chat's number or @name, with /thread where it has threads")
      .optional(),
    root: httpUrl.default("https://api.telegram.org"),
    /** Show in the chat that an agent is working. */
    typing: z.boolean().default(false),
    ...httpOptions,
  })
  .refine((entry) => isEncrypted(entry.root, entry), { path: ["root"], message: NEEDS_HTTPS });

/** The URL is a secret: it allows to write. */
const slack = z.strictObject({ kind: z.literal("slack"), url: secret, ...httpOptions });

const argv = z.array(argument).min(1).max(256);
const programLimit = z.int().min(100).max(defaults.channelMostMs).default(defaults.channelProgramMs);
const command = z.strictObject({ kind: z.literal("command"), argv, "timeout-ms": programLimit });
const desktop = z.strictObject({ kind: z.literal("desktop"), "timeout-ms": programLimit });
const bell = z.strictObject({ kind: z.literal("bell") });

const kinds = { webhook, telegram, slack, command, desktop, bell };
export const CHANNEL_KINDS = Object.keys(kinds) as readonly (keyof typeof kinds)[];

/** `[channels.<name>]`: a receiver of notifications. */
export const channelTablesSchema = z.record(
  tableName,
  z.discriminatedUnion("kind", [webhook, telegram, slack, command, desktop, bell], {
    error: `must be one of ${CHANNEL_KINDS.join(", ")}`,
  }),
);

/** The keys of a table of this kind. */
export function channelKeys(kind: unknown): readonly string[] {
  const known = CHANNEL_KINDS.find((each) => each === kind);
  return known === undefined ? [] : Object.keys(kinds[known].shape);
}

export type ChannelEntry = z.output<typeof channelTablesSchema>[string];
type ChannelKind = ChannelEntry["kind"];
export type ChannelEntryOf<Kind extends ChannelKind> = Extract<ChannelEntry, { readonly kind: Kind }>;
export type HttpChannelOptions = Pick<ChannelEntryOf<"webhook">, keyof typeof httpOptions>;

/** Environment variables that hold secrets of channels. */
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

export function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, hash } = new URL(text);
  return (protocol === "https:" || protocol === "http:") && username + password + hash === "";
}

export type ChannelEntries = Readonly<Record<string, ChannelEntry>>;

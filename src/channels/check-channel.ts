import { stat } from "node:fs/promises";
import { isIP } from "node:net";
import { isAllowedAddress } from "../config/network-addresses.js";
import {
  type ChannelEntries,
  type ChannelEntry,
  type HttpChannelOptions,
  isHttpUrl,
  type SecretSource,
} from "../config/channels.js";
import { errorMessage } from "../home/errno.js";
import { resolveExecutable } from "../sessions/resolve-executable.js";
import { desktopProgram } from "./desktop.js";
import { readSecret } from "./secrets.js";
import { TELEGRAM_TOKEN } from "./telegram.js";
import { parseSigningKey } from "./webhook.js";

/** A fault in the configuration of a channel. `fatal`: no notification can be delivered. */
interface ChannelProblem {
  readonly fatal: boolean;
  readonly what: string;
  readonly remedy: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** The destination, without secrets. */
export function describeChannel(entry: ChannelEntry): string {
  switch (entry.kind) {
    case "webhook":
      return new URL(entry.url).origin;
    case "telegram":
      return `${entry.chat === undefined ? "" : `chat ${entry.chat} at `}${new URL(entry.root).origin}`;
    case "slack":
      return "file" in entry.url ? `the address in ${entry.url.file}` : `the address in ${entry.url.env}`;
    case "command":
      return entry.argv[0] ?? "";
    case "desktop":
      return desktopProgram();
    case "bell":
      return "attached terminals";
  }
}

/** The channels by name, in the order of the configuration. */
export function describeChannels(entries: ChannelEntries) {
  return Object.entries(entries).map(([name, entry]) => ({
    name,
    kind: entry.kind,
    where: describeChannel(entry),
  }));
}

/** Finds the faults that show without a request to the receiver. Secrets and programs are looked up with this environment. */
export async function checkChannel(
  entry: ChannelEntry,
  env: Environment = process.env,
): Promise<readonly ChannelProblem[]> {
  switch (entry.kind) {
    case "webhook":
      return [
        ...checkAddress(entry.url, entry),
        ...(await checkSecrets(entry.secrets, env, (secret) => void parseSigningKey(secret))),
      ];
    case "telegram":
      return [
        ...checkAddress(entry.root, entry),
        ...(await checkSecrets([entry.token], env, (token) => {
          if (!TELEGRAM_TOKEN.test(token))
            throw new Error("the token does not have the form of a bot token (123456:ABC…)");
        })),
        ...(entry.chat === undefined ? [NO_CHAT] : []),
      ];
    case "slack":
      return checkSecrets([entry.url], env, (address) => {
        if (!isHttpUrl(address)) throw new Error("it does not hold an address of the form https://host/path");
        if (new URL(address).protocol !== "https:" && !entry["allow-http"])
          throw new Error("its address is not https, and allow-http is not set");
        const [fault] = checkAddress(address, entry);
        if (fault !== undefined) throw new Error(fault.what);
      });
    case "command":
      return checkProgram(entry.argv[0] ?? "", env, "correct argv");
    case "desktop":
      return [...(await checkProgram(desktopProgram(), env, INSTALL_REMEDY)), ...checkDesktopBus(env)];
    case "bell":
      return [];
  }
}

const NO_CHAT: ChannelProblem = {
  fatal: false,
  what: "it has no chat: only notifications with an address of their own are delivered",
  remedy: 'set chat = "…"',
};

const INSTALL_REMEDY = "install it (Debian: libnotify-bin), or remove the channel";

/** Host names are not resolved: that would be a request. */
function checkAddress(
  address: string,
  { "allow-networks": allowed }: HttpChannelOptions,
): readonly ChannelProblem[] {
  const host = new URL(address).hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) === 0 || isAllowedAddress(host, allowed)) return [];
  const what = `${host} is not a public address, so nothing is sent to it`;
  return [{ fatal: true, what, remedy: `allow-networks = ["${host}"]` }];
}

async function checkSecrets(
  sources: readonly SecretSource[],
  env: Environment,
  check: (secret: string) => void,
): Promise<readonly ChannelProblem[]> {
  return (await Promise.all(sources.map((source) => checkSecret(source, env, check)))).flat();
}

async function checkSecret(
  source: SecretSource,
  env: Environment,
  check: (secret: string) => void,
): Promise<readonly ChannelProblem[]> {
  // Not fatal for a missing variable: the gateway may have it in its own environment.
  const isSet = "file" in source || (env[source.env] ?? "") !== "";
  const where = "file" in source ? source.file : source.env;
  try {
    check(await readSecret(source, env));
  } catch (error) {
    const remedy = isSet ? `correct ${where}` : `set ${where} where the gateway is started, or use a file`;
    return [{ fatal: isSet, what: errorMessage(error), remedy }];
  }
  if (!("file" in source) || ((await stat(source.file)).mode & 0o077) === 0) return [];
  const what = `others can read the secret in ${source.file}`;
  return [{ fatal: false, what, remedy: `chmod 600 ${source.file}` }];
}

async function checkProgram(
  name: string,
  env: Environment,
  remedy: string,
): Promise<readonly ChannelProblem[]> {
  const found = await resolveExecutable(name, { path: env["PATH"], cwd: process.cwd() });
  return found === null ? [{ fatal: true, what: `there is no program ${name}`, remedy }] : [];
}

function checkDesktopBus(env: Environment): readonly ChannelProblem[] {
  if (process.platform !== "linux" || env["DBUS_SESSION_BUS_ADDRESS"] !== undefined) return [];
  return [
    {
      fatal: false,
      what: "this environment has no desktop message bus",
      remedy: "start the gateway in the desktop session, with DBUS_SESSION_BUS_ADDRESS",
    },
  ];
}

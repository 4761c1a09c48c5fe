import { stat } from "node:fs/promises";
import { isIP } from "node:net";
import { resolveExecutable } from "../sessions/resolve-executable.js";
import { desktopProgram } from "./desktop.js";
import { isHttpAddress, type ChannelEntry, type Outgoing, type SecretSource } from "./entry.js";
import { mayReach } from "./network.js";
import { readSecret } from "./secret.js";
import { keyOf } from "./signature.js";
import { TELEGRAM_TOKEN } from "./telegram.js";

/** Something about a channel that is not as it should be. `fatal`: nothing arrives that way. */
export interface Flaw {
  readonly fatal: boolean;
  readonly what: string;
  readonly remedy: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Where it leads, without what must not be shown. */
export function describeChannel(entry: ChannelEntry): string {
  switch (entry.kind) {
    case "webhook":
      return new URL(entry.url).origin;
    case "telegram":
      return `${entry.chat === undefined ? "" : `chat ${entry.chat} by `}${new URL(entry.root).origin}`;
    case "slack":
      return "file" in entry.url ? `the address in ${entry.url.file}` : `the address in ${entry.url.env}`;
    case "command":
      return entry.argv[0] ?? "";
    case "desktop":
      return desktopProgram();
    case "bell":
      return "terminals that are attached";
  }
}

/** Everything that can be told without asking anybody else. Secrets and programs are looked for as a process with this environment would. */
export async function inspectChannel(
  entry: ChannelEntry,
  env: Environment = process.env,
): Promise<readonly Flaw[]> {
  switch (entry.kind) {
    case "webhook":
      return [
        ...inspectAddress(entry.url, entry),
        ...(await inspectSecrets(entry.secrets, env, (secret) => void keyOf(secret))),
      ];
    case "telegram":
      return [
        ...inspectAddress(entry.root, entry),
        ...(await inspectSecrets([entry.token], env, (token) => {
          if (!TELEGRAM_TOKEN.test(token)) throw new Error("the token does not look like one (123456:ABC…)");
        })),
        ...(entry.chat === undefined
          ? [flaw(false, "it has no chat: only what names one itself arrives", 'set chat = "…"')]
          : []),
      ];
    case "slack":
      return inspectSecrets([entry.url], env, (address) => {
        if (!isHttpAddress(address)) throw new Error("it does not hold an address as https://host/path");
        if (new URL(address).protocol !== "https:" && !entry["allow-http"])
          throw new Error("it holds an address that is not https, and allow-http is not set");
        const [wrong] = inspectAddress(address, entry);
        if (wrong !== undefined) throw new Error(wrong.what);
      });
    case "command":
      return inspectProgram(entry.argv[0] ?? "", env, "correct argv");
    case "desktop":
      return [...(await inspectProgram(desktopProgram(), env, INSTALL)), ...inspectDesktop(env)];
    case "bell":
      return [];
  }
}

const INSTALL = "install it (Debian: libnotify-bin), or remove the channel";

function flaw(fatal: boolean, what: string, remedy: string): Flaw {
  return { fatal, what, remedy };
}

/** Names are not looked up: that would ask somebody. */
function inspectAddress(address: string, { "allow-networks": allowed }: Outgoing): readonly Flaw[] {
  const host = new URL(address).hostname.replace(/^\[|\]$/g, "");
  return isIP(host) === 0 || mayReach(host, allowed)
    ? []
    : [flaw(true, `${host} is no public address: nothing is sent there`, `allow-networks = ["${host}"]`)];
}

async function inspectSecrets(
  sources: readonly SecretSource[],
  env: Environment,
  check: (secret: string) => void,
): Promise<readonly Flaw[]> {
  const found = await Promise.all(sources.map((source) => inspectSecret(source, env, check)));
  return found.flat();
}

async function inspectSecret(
  source: SecretSource,
  env: Environment,
  check: (secret: string) => void,
): Promise<readonly Flaw[]> {
  // A gateway that was started elsewhere may have the variable.
  const isThere = "file" in source || (env[source.env] ?? "") !== "";
  const where = "file" in source ? source.file : source.env;
  try {
    check(await readSecret(source, env));
  } catch (error) {
    const remedy = isThere ? `correct ${where}` : `set ${where} where the gateway is started, or use a file`;
    return [flaw(isThere, error instanceof Error ? error.message : String(error), remedy)];
  }
  if (!("file" in source) || ((await stat(source.file)).mode & 0o077) === 0) return [];
  return [flaw(false, `others can read the secret in ${source.file}`, `chmod 600 ${source.file}`)];
}

async function inspectProgram(name: string, env: Environment, remedy: string): Promise<readonly Flaw[]> {
  const found = await resolveExecutable(name, { path: env["PATH"], cwd: process.cwd() });
  return found === null ? [flaw(true, `there is no program ${name}`, remedy)] : [];
}

function inspectDesktop(env: Environment): readonly Flaw[] {
  if (process.platform !== "linux" || env["DBUS_SESSION_BUS_ADDRESS"] !== undefined) return [];
  return [
    flaw(
      false,
      "there is no desktop's message bus in this environment",
      "start the gateway in the desktop's session, with DBUS_SESSION_BUS_ADDRESS",
    ),
  ];
}

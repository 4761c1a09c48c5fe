import { warnIfReadable } from "../home/path-trust.js";
import { isSecretName } from "../text/redact.js";
import { configPath, readConfigFile } from "./file.js";
import { hasSecret } from "./mcp.js";
import { parseToml, stringifyToml } from "./toml.js";
import { type Config, positionInFile, scalarSections, validateConfig } from "./schema.js";

type SettingSource = "flag" | "environment" | "file" | "default";

/** The value of one setting, and its source. */
export interface Setting {
  /** As in the file: `gateway.listen`. */
  readonly key: string;
  readonly value: unknown;
  readonly from: SettingSource;
  /** The variable that sets it over the file; null: it is a list, which only the file can set. */
  readonly variable: string | null;
}

export interface Settings {
  readonly path: string;
  readonly config: Config;
  readonly entries: readonly Setting[];
}

/** Flags of a command line, by their keys. */
export type SettingFlags = Readonly<Record<string, string | undefined>>;

type Environment = Readonly<Record<string, string | undefined>>;
type RawConfig = Record<string, Record<string, unknown>>;

/** Flags override the environment, which overrides the file, which overrides the defaults. */
export async function readSettings(
  flags: SettingFlags = {},
  env: Environment = process.env,
  path: string = configPath(env),
): Promise<Settings> {
  return resolveSettings(await readConfigFile(path), path, flags, env);
}

export function resolveSettings(text: string, path: string, flags: SettingFlags, env: Environment): Settings {
  const { raw, sources } = mergeSources(text, path, flags, env);
  const config = validateConfig(raw, (at) => {
    const [section = "", key = ""] = at.map(String);
    const source = sources.get(`${section}.${key}`);
    if (source === "environment") return { line: null, text: environmentVariable(section, key) };
    if (source === "flag") return { line: null, text: `--${key}` };
    return positionInFile(text, path, at);
  });
  const given = Object.values(config.agents).flatMap(({ env: variables }) => Object.keys(variables));
  if (given.some(isSecretName) || Object.values(config.mcp).some(hasSecret)) warnIfReadable(path);
  return { path, config, entries: listSettings(config, raw, sources) };
}

/** First line of a written configuration whose database address was given in the environment. */
const URL_NOT_KEPT = "# database.url was given in the environment and is not kept here\n";

/**
 * The same settings as the text of one config file, without the defaults. It may hold the secrets of the config file,
 * but not an address of the database that was given in the environment: its password is written nowhere.
 */
export function settingsToToml(text: string, path: string, flags: SettingFlags, env: Environment): string {
  const { raw, sources } = mergeSources(text, path, flags, env);
  const { url: _url, ...database } = raw["database"] ?? {};
  if (sources.get("database.url") === "environment")
    return URL_NOT_KEPT + stringifyToml({ ...raw, database });
  // A variable with a url-file overrides the url of the config file; in one file the url would win.
  const isOver = sources.get("database.url-file") === "environment" && sources.get("database.url") === "file";
  return stringifyToml(isOver ? { ...raw, database } : raw);
}

/** The environment of a process that uses only the settings of this config file. `text`: its content. */
export function environmentWithConfig(
  path: string,
  text: string,
  env: Readonly<Record<string, string>>,
): Record<string, string> {
  const variables = new Set(scalarKeys().map(([section, key]) => environmentVariable(section, key)));
  if (text.startsWith(URL_NOT_KEPT)) variables.delete(environmentVariable("database", "url"));
  const others = Object.entries(env).filter(([name]) => !variables.has(name));
  return { ...Object.fromEntries(others), HOLDFAST_CONFIG: path };
}

function mergeSources(
  text: string,
  path: string,
  flags: SettingFlags,
  env: Environment,
): { readonly raw: RawConfig; readonly sources: ReadonlyMap<string, SettingSource> } {
  const raw = parseToml(text, path) as RawConfig;
  const sources = new Map<string, SettingSource>();
  for (const [section, key] of scalarKeys()) {
    const name = `${section}.${key}`;
    if (raw[section]?.[key] !== undefined) sources.set(name, "file");
    const said = flags[name] ?? nonEmpty(env[environmentVariable(section, key)]);
    // The schema rejects a section that is not a table.
    if (said === undefined || !isTable(raw[section] ?? {})) continue;
    raw[section] = { ...raw[section], [key]: parseScalar(said) };
    sources.set(name, flags[name] === undefined ? "environment" : "flag");
  }
  return { raw, sources };
}

function listSettings(
  config: Config,
  raw: RawConfig,
  sources: ReadonlyMap<string, SettingSource>,
): Setting[] {
  const single = scalarKeys().map(([section, key]): Setting => {
    const name = `${section}.${key}`;
    const value = (config[section] as Readonly<Record<string, unknown>>)[key] ?? null;
    return {
      key: name,
      value,
      from: sources.get(name) ?? "default",
      variable: environmentVariable(section, key),
    };
  });
  const lists: [string, unknown, unknown][] = [
    ["a2a.allow", config.a2a.allow, raw["a2a"]?.["allow"]],
    ["exec", config.exec, raw["exec"]],
    ["permissions", config.permissions, raw["permissions"]],
    ["environment.pass", config.environment.pass, raw["environment"]?.["pass"]],
    // Their environments and headers may hold secrets.
    ["mcp", Object.keys(config.mcp), raw["mcp"]],
    ["agents", Object.keys(config.agents), raw["agents"]],
    ["channels", Object.keys(config.channels), raw["channels"]],
    ["foreign", config.foreign, raw["foreign"]],
  ];
  return [
    ...single,
    ...lists.map(([key, value, said]): Setting => {
      return { key, value, from: said === undefined ? "default" : "file", variable: null };
    }),
  ];
}

/** Everything that is one word, number or switch. */
function scalarKeys(): (readonly [keyof typeof scalarSections, string])[] {
  return (Object.keys(scalarSections) as (keyof typeof scalarSections)[]).flatMap((section) =>
    Object.keys(scalarSections[section].shape)
      .filter((key) => !(section === "a2a" && key === "allow"))
      .map((key) => [section, key] as const),
  );
}

/** `gateway.log-level` is `HOLDFAST_GATEWAY_LOG_LEVEL`. */
function environmentVariable(section: string, key: string): string {
  return `HOLDFAST_${section}_${key}`.replaceAll("-", "_").toUpperCase();
}

function parseScalar(text: string): unknown {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  return text === "true" ? true : text === "false" ? false : text;
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}

function isTable(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

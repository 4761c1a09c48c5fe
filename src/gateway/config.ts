import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { parse, TomlError } from "smol-toml";
import { z } from "zod";
import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import { nearMatches } from "../output/near-matches.js";
import { execRulesSchema } from "../sessions/exec-rule-schema.js";
import { VISIBILITIES } from "../store/session-record.js";
import { lineOf } from "./config-line.js";
import { BadConfig, inWords, keyOf } from "./config-problem.js";
import { parseLoopback } from "./server/loopback.js";

const variable = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,126}$/, "must be the name of an environment variable");

/** How to tell that the tool which marked a process is gone. */
const owner = z.union(
  [
    z.literal("orphaned"),
    // The same where process 1 is known to be no owner: a container with an init of its own.
    z.literal("orphaned-in-container"),
    z.strictObject({ "pid-variable": variable }),
    z.strictObject({ "pid-file": z.string().refine(isAbsolute, "must be an absolute path") }),
  ],
  'must be "orphaned", "orphaned-in-container", { pid-variable = "NAME" } or { pid-file = "/absolute/path" }',
);

/** Another tool's processes, told by a variable it sets in their environment. */
const foreign = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,40}$/, "must be a short word of a-z, 0-9, _ and -"),
  marker: variable.refine((name) => !name.startsWith("HOLDFAST_"), "must not be one of Holdfast's own"),
  owner: owner.default("orphaned"),
  "grace-ms": z.int().min(0).max(600_000).default(defaults.graceMs),
});

const agent = z.string().min(1).max(200);
const a2aRule = z.strictObject({ from: agent, to: agent });

/** What a gateway is told about itself. */
const gateway = z.strictObject({
  /** Left out: only the state directory's socket. */
  listen: z
    .string()
    .refine(
      (text) => parseLoopback(text) !== null,
      "must be a loopback address with a port, as 127.0.0.1:7433 or [::1]:7433: elsewhere others could reach it",
    )
    .optional(),
  "log-level": z.enum(["info", "warn", "silent"]).default("info"),
});

/** For an exec that does not say otherwise. */
const execDefaults = z.strictObject({
  "grace-ms": z.int().min(0).max(600_000).default(defaults.graceMs),
  "timeout-ms": z.int().min(0).default(defaults.execTimeoutMs),
  "no-output-timeout-ms": z.int().min(0).default(0),
  "yield-ms": z.int().min(10).max(120_000).default(defaults.execYieldMs),
  "buffer-bytes": z
    .int()
    .min(64 * 1024)
    .max(1024 * 1024 * 1024)
    .default(defaults.spoolBytes),
  "on-escape": z.enum(["fail", "sweep"]).default("fail"),
});

/** Of sessions that say nothing themselves. */
const visibility = z.strictObject({ default: z.enum(VISIBILITIES).default("tree") });

/** Which agents' sessions may see which others', at the visibility `all`. */
const a2a = z.strictObject({
  enabled: z.boolean().default(false),
  allow: z.array(a2aRule).max(1_000).default([]),
});

/** The tables whose settings are single words, numbers and switches: these can come from the environment, too. */
export const sections = { gateway, defaults: execDefaults, visibility, a2a };

const schema = z.strictObject({
  gateway: gateway.prefault({}),
  defaults: execDefaults.prefault({}),
  visibility: visibility.prefault({}),
  a2a: a2a.prefault({}),
  /** Of sessions that say nothing themselves, in order. */
  exec: execRulesSchema.default([]),
  foreign: z
    .array(foreign)
    .default([])
    .refine(
      (all) => new Set(all.map(({ name }) => name)).size === all.length,
      "two profiles have the same name",
    ),
});

/** What may stand in a table, for suggestions. */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  "": Object.keys(schema.shape),
  gateway: Object.keys(gateway.shape),
  defaults: Object.keys(execDefaults.shape),
  visibility: Object.keys(visibility.shape),
  a2a: Object.keys(a2a.shape),
  "a2a.allow": Object.keys(a2aRule.shape),
  exec: Object.keys(execRulesSchema.element.shape),
  foreign: Object.keys(foreign.shape),
};

export type Config = z.output<typeof schema>;
export type ForeignProfile = Config["foreign"][number];

/** `$HOLDFAST_CONFIG`, else the platform's place for it. */
export function configPath(
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  const chosen = env["HOLDFAST_CONFIG"];
  if (chosen !== undefined && chosen !== "") return chosen;
  const home = env["HOME"] ?? "";
  if (platform === "win32") return join(env["APPDATA"] ?? home, "holdfast", "config.toml");
  if (platform === "darwin") return join(home, "Library", "Application Support", "holdfast", "config.toml");
  const xdg = env["XDG_CONFIG_HOME"];
  return join(xdg !== undefined && isAbsolute(xdg) ? xdg : join(home, ".config"), "holdfast", "config.toml");
}

/** A file that is not there says nothing: it is empty. */
export async function readConfigFile(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT" && process.env["HOLDFAST_CONFIG"] !== path)
      return "";
    throw new BadInput(
      "config",
      `the config file ${path} cannot be read (${(error as Error).message}); nothing was changed`,
    );
  }
}

/** One that is wrong is refused as a whole, with the place. */
export async function readConfig(path: string = configPath()): Promise<Config> {
  return parseConfig(await readConfigFile(path), path);
}

export function parseConfig(text: string, path: string): Config {
  return checkConfig(parseToml(text, path), (at) => placeInFile(text, path, at));
}

export function parseToml(text: string, path: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch (error) {
    const line = error instanceof TomlError ? error.line : null;
    const message = error instanceof TomlError ? (error.message.split("\n", 1)[0] ?? "") : String(error);
    throw new BadConfig(
      [{ line, key: "", message }],
      `${path} is not valid TOML, ${line === null ? "" : `line ${line}: `}${message}; nothing was changed`,
    );
  }
}

/** Where a value was written; `line`: of the file, if it was there. */
export interface Place {
  readonly line: number | null;
  readonly text: string;
}

export function placeInFile(text: string, path: string, at: readonly PropertyKey[]): Place {
  const line = lineOf(text, at);
  return { line, text: line === null ? path : `${path}, line ${line}` };
}

export function checkConfig(raw: unknown, place: (at: readonly PropertyKey[]) => Place): Config {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const found = parsed.error.issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({
          at: [...issue.path, key],
          message: `is no setting${suggestion(issue.path, key)}`,
        }))
      : [{ at: issue.path, message: inWords(issue, raw) }],
  );
  const problems = found.map(({ at, message }) => ({ line: place(at).line, key: keyOf(at), message }));
  const sentences = found.map(
    ({ at, message }) =>
      `${place(at).text}: ${keyOf(at) || "the file"}${/^(is|must) /.test(message) ? "" : ":"} ${message}`,
  );
  throw new BadConfig(problems, `${sentences.join("; ")}. Nothing was changed`);
}

function suggestion(table: readonly PropertyKey[], key: string): string {
  const known = KEYS[table.filter((part) => typeof part !== "number").join(".")] ?? [];
  const [near] = nearMatches(key, known);
  if (near !== undefined) return ` (did you mean ${near}?)`;
  return known.length === 0 ? "" : ` (there are ${known.join(", ")})`;
}

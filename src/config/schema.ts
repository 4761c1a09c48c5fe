import { isAbsolute } from "node:path";
import { z } from "zod";
import { defaults } from "../defaults.js";
import { DELIVER_MODES, VISIBILITIES } from "../model/enums.js";
import { execRulesSchema } from "../model/exec/exec-rule.js";
import { didYouMean } from "../text/did-you-mean.js";
import { parseLoopback, parsePeerAddress } from "./network-addresses.js";
import { agentKeys, agentTablesSchema, anyVariableName, variableName } from "./agents.js";
import { channelKeys, channelTablesSchema } from "./channels.js";
import { configPath, readConfigFile } from "./file.js";
import { BadConfig, describeIssue, settingKey, valueAt } from "./config-problems.js";
import { lineOfSetting, parseToml } from "./toml.js";
import { mcpKeys, mcpTablesSchema } from "./mcp.js";
import { permissionKeys, permissionTablesSchema } from "./permissions.js";
import { postgresUrlLabel, postgresUrlProblem } from "./postgres-url.js";

/** How to detect that the tool that marked a process is gone. */
const unmanagedOwner = z.union(
  [
    z.literal("orphaned"),
    // The same in a container with its own init, where process 1 is not an owner.
    z.literal("orphaned-in-container"),
    z.strictObject({ "pid-variable": anyVariableName }),
    z.strictObject({ "pid-file": z.string().refine(isAbsolute, "must be an absolute path") }),
  ],
  'must be "orphaned", "orphaned-in-container", { pid-variable = "NAME" } or { pid-file = "/absolute/path" }',
);

/** Processes of another tool, recognized by a variable in their environment. */
const unmanagedProfile = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,40}$/, "must be a short word of a-z, 0-9, _ and -"),
  marker: variableName,
  owner: unmanagedOwner.default("orphaned"),
  "grace-ms": z.int().min(0).max(600_000).default(defaults.graceMs),
});

/** Variables that sessions may set for commands under exec rules, and that their runs get from the gateway's environment. */
const environment = z.strictObject({
  pass: z.array(variableName).max(256).default([]),
});

const agentPattern = z.string().min(1).max(200);
const a2aRule = z.strictObject({ from: agentPattern, to: agentPattern });

/** Settings of the gateway. */
const gateway = z.strictObject({
  /** Absent: only the socket in the state directory. */
  listen: z
    .string()
    .refine(
      (text) => parseLoopback(text) !== null,
      "must be a loopback address with a port, as 127.0.0.1:7433 or [::1]:7433: other hosts could connect to any other address",
    )
    .optional(),
  "log-level": z.enum(["info", "warn", "silent"]).default("info"),
  /** Start the background gateway in a delegated scope of the user's systemd manager if its own cgroup is not usable. */
  "systemd-scope": z.boolean().default(true),
});

const peerAddress = z
  .string()
  .refine(
    (text) => parsePeerAddress(text) !== null,
    "must be a host and a port, as 10.0.0.7:7444, [fd00::7]:7444 or name:7444",
  );

/** How gateways of other hosts that use the same database reach this one. */
const peers = z.strictObject({
  /** Absent: they cannot. */
  listen: peerAddress.optional(),
  /** The address that they connect to, if it differs from `listen`. */
  advertise: peerAddress.optional(),
});

/** The location of the store. It is read where the store is opened; here it is checked, and its password removed. */
const database = z.strictObject({
  url: z
    .string()
    .transform((address, context) => {
      const problem = postgresUrlProblem(address);
      if (problem === null) return postgresUrlLabel(address);
      context.addIssue(problem);
      return z.NEVER;
    })
    .optional(),
  "url-file": z.string().refine(isAbsolute, "must be an absolute path").optional(),
  /** `auto`: a gateway migrates the tables of a PostgreSQL database. `manual`: only `holdfast store migrate` does. */
  migrate: z.enum(["auto", "manual"]).default("auto"),
});

/** Defaults of an exec. */
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

/** For sessions without their own visibility. */
const visibility = z.strictObject({ default: z.enum(VISIBILITIES).default("tree") });

/** Pairs of agents whose sessions may see each other at the visibility `all`. */
const a2a = z.strictObject({
  enabled: z.boolean().default(false),
  allow: z.array(a2aRule).max(1_000).default([]),
});

/** Defaults of notifications. */
const notify = z.strictObject({
  /** The channel for work that names no other and whose user's chat is unknown. Absent: none. */
  channel: z.string().min(1).max(200).optional(),
  /** The chat or thread within that channel. A variable of digits is read as a number. */
  address: z.union([z.string().min(1).max(500), z.int().transform(String)]).optional(),
  deliver: z.enum(DELIVER_MODES).default("user"),
});

/** The tables of single values, which can also be set in the environment. */
export const scalarSections = { gateway, peers, database, defaults: execDefaults, notify, visibility, a2a };

const schema = z.strictObject({
  gateway: gateway.prefault({}),
  peers: peers.prefault({}),
  database: database.prefault({}),
  defaults: execDefaults.prefault({}),
  notify: notify.prefault({}),
  visibility: visibility.prefault({}),
  a2a: a2a.prefault({}),
  /** For sessions without their own rules, in order. */
  exec: execRulesSchema.default([]),
  /** For the permission requests of agents, in order. */
  permissions: permissionTablesSchema.default([]),
  environment: environment.prefault({}),
  /** By name: MCP servers for ACP agents. */
  mcp: mcpTablesSchema.default({}),
  /** By id: in addition to the built-in agents, or instead of one. */
  agents: agentTablesSchema.default({}),
  /** By name: the receivers of notifications. */
  channels: channelTablesSchema.default({}),
  foreign: z
    .array(unmanagedProfile)
    .default([])
    .refine(
      (all) => new Set(all.map(({ name }) => name)).size === all.length,
      "two profiles have the same name",
    ),
});

/** Settings that depend on each other. */
const checkedSchema = schema.superRefine(({ notify: { channel, address }, channels }, context) => {
  const report = (key: string, message: string): void =>
    context.addIssue({ code: "custom", path: ["notify", key], message });
  if (channel === undefined && address !== undefined) report("address", "is set without notify.channel");
  if (channel !== undefined && !Object.hasOwn(channels, channel))
    report("channel", `must be the name of a channel, and there is no [channels.${channel}]`);
});

/** The keys of each table, for suggestions. */
const KEYS_BY_TABLE: Readonly<Record<string, readonly string[]>> = {
  "": Object.keys(schema.shape),
  gateway: Object.keys(gateway.shape),
  peers: Object.keys(peers.shape),
  database: Object.keys(database.shape),
  defaults: Object.keys(execDefaults.shape),
  notify: Object.keys(notify.shape),
  visibility: Object.keys(visibility.shape),
  a2a: Object.keys(a2a.shape),
  "a2a.allow": Object.keys(a2aRule.shape),
  exec: Object.keys(execRulesSchema.element.shape),
  permissions: permissionKeys,
  environment: Object.keys(environment.shape),
  foreign: Object.keys(unmanagedProfile.shape),
};

export type Config = z.output<typeof schema>;
export type UnmanagedProfile = Config["foreign"][number];

/** Rejects with BadConfig, which names the lines, if any setting is invalid. */
export async function readConfig(path: string = configPath()): Promise<Config> {
  return parseConfig(await readConfigFile(path), path);
}

export function parseConfig(text: string, path: string): Config {
  return validateConfig(parseToml(text, path), (at) => positionInFile(text, path, at));
}

/** The source of a value; `line`: in the file, if it is there. */
interface ConfigPosition {
  readonly line: number | null;
  readonly text: string;
}

export function positionInFile(text: string, path: string, at: readonly PropertyKey[]): ConfigPosition {
  const line = lineOfSetting(text, at);
  return { line, text: line === null ? path : `${path}, line ${line}` };
}

export function validateConfig(raw: unknown, place: (at: readonly PropertyKey[]) => ConfigPosition): Config {
  const parsed = checkedSchema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const found = parsed.error.issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({
          at: [...issue.path, key],
          message: `is not a setting${suggestion(knownKeys(issue.path, raw), key)}`,
        }))
      : [{ at: issue.path, message: describeIssue(issue, raw) }],
  );
  const problems = found.map(({ at, message }) => ({ line: place(at).line, key: settingKey(at), message }));
  const sentences = found.map(
    ({ at, message }) =>
      `${place(at).text}: ${settingKey(at) || "the file"}${/^(is|must) /.test(message) ? "" : ":"} ${message}`,
  );
  throw new BadConfig(problems, `${sentences.join("; ")}. Nothing was changed`);
}

function knownKeys(table: readonly PropertyKey[], raw: unknown): readonly string[] {
  const [first, second, ...rest] = table;
  if (first === "channels" && second !== undefined && rest.length === 0)
    return channelKeys((valueAt(table, raw) as { readonly kind?: unknown } | undefined)?.kind);
  if (first === "agents" && second !== undefined)
    return (agentKeys as Readonly<Record<string, readonly string[]>>)[rest.join(".")] ?? [];
  if (first === "mcp" && second !== undefined && rest.length === 0) return mcpKeys;
  return KEYS_BY_TABLE[table.filter((part) => typeof part !== "number").join(".")] ?? [];
}

function suggestion(known: readonly string[], key: string): string {
  const [near] = didYouMean(key, known);
  if (near !== undefined) return ` (did you mean ${near}?)`;
  return known.length === 0 ? "" : ` (there are ${known.join(", ")})`;
}

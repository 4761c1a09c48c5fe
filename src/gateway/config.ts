import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { parse, TomlError } from "smol-toml";
import { z } from "zod";
import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";

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

const schema = z.strictObject({
  foreign: z
    .array(foreign)
    .default([])
    .refine(
      (all) => new Set(all.map(({ name }) => name)).size === all.length,
      "two profiles have the same name",
    ),
});

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

/** A file that is not there says nothing. One that is wrong is refused as a whole, with the place. */
export async function readConfig(path: string = configPath()): Promise<Config> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT" && process.env["HOLDFAST_CONFIG"] !== path)
      return schema.parse({});
    throw new BadInput(
      "config",
      `the config file ${path} cannot be read (${(error as Error).message}); nothing was changed`,
    );
  }
  return parseConfig(text, path);
}

export function parseConfig(text: string, path: string): Config {
  let raw: unknown;
  try {
    raw = parse(text);
  } catch (error) {
    const why =
      error instanceof TomlError ? `line ${error.line}: ${error.message.split("\n", 1)[0]}` : String(error);
    throw new BadInput("config", `${path} is not valid TOML, ${why}; nothing was changed`);
  }
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(
    ({ path: at, message }) => `${at.join(".") || "the file"}: ${message}`,
  );
  throw new BadInput("config", `${path} cannot be used: ${issues.join("; ")}. Nothing was changed`);
}

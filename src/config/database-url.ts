import { readFile } from "node:fs/promises";
import { BadInput, UnsafePath } from "../errors.js";
import { requireTrustedPath, warnIfReadable } from "../home/path-trust.js";
import { configPath, readConfigFile } from "./file.js";

type Environment = Readonly<Record<string, string | undefined>>;

const HAS_PASSWORD = /^\w+:\/\/[^/?#]*:[^/?#]*@|[?&]password=/;

/**
 * The address from the environment, or from the config file. Null: the store is a file in the state directory. Read here
 * and not in the gateway, because every program that opens the store must open the same one.
 */
export async function databaseUrl(env: Environment = process.env): Promise<string | null> {
  const fromEnv = await urlFrom(env["HOLDFAST_DATABASE_URL"], env["HOLDFAST_DATABASE_URL_FILE"]);
  return fromEnv ?? (await urlFromConfig(configPath(env)));
}

/** `auto`: every program that opens the database for writing migrates its tables. `manual`: only `holdfast store migrate` does. */
export type MigrationMode = "auto" | "manual";

export async function migrationMode(env: Environment = process.env): Promise<MigrationMode> {
  const fromEnv = env["HOLDFAST_DATABASE_MIGRATE"];
  const mode = isText(fromEnv)
    ? fromEnv
    : ((await readDatabaseSection(configPath(env)))?.["migrate"] ?? "auto");
  if (mode === "auto" || mode === "manual") return mode;
  throw new BadInput("database.migrate", "database.migrate must be auto or manual; nothing was changed");
}

async function readDatabaseSection(path: string): Promise<Record<string, unknown> | null> {
  const text = await readConfigFile(path);
  // Most files have no database section, and need no parser.
  if (!text.includes("database")) return null;
  const { parseToml } = await import("./toml.js");
  const { database } = parseToml(text, path);
  return database === undefined ? null : (Object(database) as Record<string, unknown>);
}

async function urlFromConfig(path: string): Promise<string | null> {
  const section = await readDatabaseSection(path);
  if (section === null) return null;
  const { url, "url-file": file } = section;
  // A section with only `migrate` names no database.
  if (Object.keys(section).join() === "migrate") return null;
  if (isText(url) && HAS_PASSWORD.test(url)) warnIfReadable(path);
  const address = await urlFrom(url, file);
  // An error, not the file in the state directory: otherwise the records would be split.
  if (address === null)
    throw new BadInput(
      "database",
      `${path} has a database without url or url-file (holdfast config check); nothing was changed`,
    );
  return address;
}

async function urlFrom(url: unknown, file: unknown): Promise<string | null> {
  if (isText(url)) return url;
  if (!isText(file)) return null;
  const address = await readDatabaseUrlFile(file).catch((error: unknown) => {
    if (error instanceof UnsafePath) throw error;
    throw new BadInput(
      "database.url-file",
      `the address of the database cannot be read from ${file} (${(error as NodeJS.ErrnoException).code ?? "no reason"}); nothing was changed`,
    );
  });
  if (address.trim() === "")
    throw new BadInput("database.url-file", `${file} contains no address of a database; nothing was changed`);
  return address.trim();
}

/** The file usually contains a password, and names the server that receives all records. */
export async function readDatabaseUrlFile(path: string): Promise<string> {
  requireTrustedPath(path, `the file with the address of the database, ${path},`);
  const text = await readFile(path, "utf8");
  warnIfReadable(path);
  return text;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { BadInput, UnsafePath } from "../errors.js";
import { readDatabaseUrlFile } from "../config/database-url.js";
import { parsePostgresUrl } from "../config/postgres-url.js";

/** The location of a store. */
export type StoreLocation =
  | { readonly kind: "sqlite"; readonly path: string }
  | { readonly kind: "postgres"; readonly url: string };

const STORE_LOCATION_FORMS = "the path of a SQLite file, env:NAME, url-file:PATH or postgres://…";

/** No system opens a longer path. */
const MAX_PATH_LENGTH = 4_096;

/** `env:NAME` and `url-file:PATH` name a database's address without showing its password in lists of processes. */
export async function parseStoreLocation(
  text: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<StoreLocation> {
  if (isPostgresUrl(text)) return postgresLocation(text);
  const [, scheme, rest = ""] = /^(env|url-file):(.*)$/s.exec(text) ?? [];
  if (scheme === "env") {
    const url = env[rest] ?? "";
    if (url !== "") return postgresLocation(url);
    throw new BadInput("place", `the environment has no ${rest}; nothing was changed`);
  }
  if (scheme === "url-file") {
    const url = await readDatabaseUrlFile(rest).catch((error: unknown) => {
      if (error instanceof UnsafePath) throw error;
      const why = (error as NodeJS.ErrnoException).code ?? "no reason";
      throw new BadInput(
        "place",
        `the database's address cannot be read from ${rest} (${why}); nothing was changed`,
      );
    });
    return postgresLocation(url.trim());
  }
  if (text === "" || text.includes("\0") || text.length > MAX_PATH_LENGTH)
    throw new BadInput("place", `a store is ${STORE_LOCATION_FORMS}; nothing was changed`);
  const path = resolve(text);
  if ((await stat(path).catch(() => null))?.isDirectory() === true)
    throw new BadInput(
      "place",
      `${path} is a directory; a store is a file, such as store.sqlite in a state directory. Nothing was changed`,
    );
  return { kind: "sqlite", path };
}

/** True if the argument shows a password in lists of processes. */
export function showsPassword(text: string): boolean {
  return isPostgresUrl(text) && parsePostgresUrl(text).secrets.length > 0;
}

export function storeLocationName(location: StoreLocation): string {
  return location.kind === "sqlite" ? location.path : parsePostgresUrl(location.url).label;
}

function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text);
}

function postgresLocation(url: string): StoreLocation {
  parsePostgresUrl(url);
  return { kind: "postgres", url };
}

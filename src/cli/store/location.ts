import { databaseUrl } from "../../config/database-url.js";
import { resolveHome } from "../../home/state-directory.js";
import { parseStoreLocation, showsPassword, type StoreLocation } from "../../store/location.js";
import { findStateDirectory } from "../../store/open.js";
import { notice } from "../print/stderr.js";

/** The store that an argument names. */
export async function parseNamedStore(word: string): Promise<StoreLocation> {
  if (showsPassword(word)) {
    // Process lists show this title instead of the URL.
    process.title = "holdfast store";
    notice(
      "the command line has a password, which others may have seen; use env:NAME or url-file:PATH",
      "yellow",
    );
  }
  return parseStoreLocation(word);
}

/** The store that commands use by default. Null: no database is configured and there is no state directory yet. */
export async function storeInUse(): Promise<StoreLocation | null> {
  const url = await databaseUrl();
  if (url !== null) return { kind: "postgres", url };
  const directory = await findStateDirectory(resolveHome());
  return directory === null ? null : { kind: "sqlite", path: directory.storePath };
}

import { databaseAddress } from "../../store/database-address.js";
import { parsePlace, showsPassword, type Place } from "../../store/place.js";
import { findStateDirectory, resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";

/** The store that a word of the command line names. */
export async function namedStore(word: string): Promise<Place> {
  if (showsPassword(word)) {
    // From here on lists of processes show this instead.
    process.title = "holdfast store";
    say(
      "the command line has a password, which others may have seen; use env:NAME or url-file:PATH",
      "yellow",
    );
  }
  return parsePlace(word);
}

/** The store that commands use by default. Null: no database is configured and there is no state directory yet. */
export async function storeInUse(): Promise<Place | null> {
  const url = await databaseAddress();
  if (url !== null) return { kind: "postgres", url };
  const directory = await findStateDirectory(resolveHome());
  return directory === null ? null : { kind: "sqlite", path: directory.storePath };
}

import { parsePlace, showsPassword, type Place } from "../../store/place.js";
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

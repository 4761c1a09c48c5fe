import { userInfo } from "node:os";

/** Who is named in records as having asked from this command line. */
export function cliActor(): string {
  return `cli:${userName()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A uid without an entry in the password file, as in many containers.
    return `uid-${process.getuid?.() ?? "unknown"}`;
  }
}

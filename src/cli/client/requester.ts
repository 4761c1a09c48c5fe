import { userInfo } from "node:os";
import { BadInput } from "../../errors.js";

/** The token of a session, when this acts for one. Null: this is the operator. */
export function sessionToken(): string | null {
  if (process.env["HOLDFAST_AS_OPERATOR"] === "1") return null;
  const token = process.env["HOLDFAST_TOKEN"] ?? null;
  // Whoever meant to act for a session, and whose script lost its token, must not act as the operator.
  if (token?.trim() === "")
    throw new BadInput(
      "HOLDFAST_TOKEN",
      "HOLDFAST_TOKEN is set and empty, and acts for nobody; nothing was done. Without it, this acts as the operator",
    );
  return token;
}

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

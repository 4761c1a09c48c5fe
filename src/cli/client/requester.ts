import { userInfo } from "node:os";
import { BadInput } from "../../errors.js";

/** The token of a session; null: this is the operator. */
export function sessionToken(): string | null {
  if (process.env["HOLDFAST_AS_OPERATOR"] === "1") return null;
  const token = process.env["HOLDFAST_TOKEN"] ?? null;
  // A script that lost its token must not act as the operator.
  if (token?.trim() === "")
    throw new BadInput(
      "HOLDFAST_TOKEN",
      "HOLDFAST_TOKEN is empty; nothing was done. Unset it to act as the operator",
    );
  return token;
}

/** The actor that records name for requests from this command line. */
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

import { BadInput } from "../../errors.js";
import { sessionToken } from "../client/requester.js";

/** By the option, or by a variable for a whole shell. A session's commands are the gateway's to judge. */
export function isInProcessRequested(asked: boolean): boolean {
  const session = sessionToken() !== null;
  if (asked && session)
    throw new BadInput(
      "in-process",
      "--in-process is not for a session: its commands go through the gateway, which knows what it may do; nothing was done. HOLDFAST_AS_OPERATOR=1 acts as the operator",
    );
  return asked || (!session && process.env["HOLDFAST_IN_PROCESS"] === "1");
}

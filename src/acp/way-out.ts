import type { AcpCloseReason, AcpClosed } from "../errors.js";
import type { RunExit } from "../store/run-record.js";
import { excerpt } from "./wire/excerpt.js";

const SPOKE: readonly AcpCloseReason[] = ["ended", "protocol-error"];

/** Why an agent has ended, with its exit status and the last words of its stderr where these may say why. */
export function wayOut(closed: AcpClosed, exit: RunExit | null, stderr: string): AcpClosed {
  if (!SPOKE.includes(closed.reason)) return closed;
  const words = lastWords(stderr);
  return closed.and([...statusOf(exit), ...(words === "" ? [] : [`its last words: ${words}`])]);
}

/** Its own, not what it had when it was ended. */
function statusOf(exit: RunExit | null): string[] {
  if (exit?.reason === "exit" && exit.code !== null) return [`it exited with code ${exit.code}`];
  return exit?.reason === "signal" && exit.signal !== null ? [`it was ended by ${exit.signal}`] : [];
}

/** Below the sentence that says what is wrong, Node writes where, the error's fields, and its own version. */
const BESIDE = /^(?:\s|[\])}]|Node\.js v|$)/;

function lastWords(stderr: string): string {
  const lines = stderr.trimEnd().split("\n");
  return excerpt(lines.findLast((line) => !BESIDE.test(line)) ?? lines.at(-1) ?? "");
}

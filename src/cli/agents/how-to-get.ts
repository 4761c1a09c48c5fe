import { notice } from "../print/stderr.js";
import { exitCodes } from "../print/exit-code.js";

/** Of a known agent: a command that is not there wants to be installed. */
export function noticeInstallHint(code: number): number {
  if (code === exitCodes.notFound) notice("`holdfast agents list` says how to get it", "dim");
  return code;
}

import { type Check, runChecks } from "../../gateway/doctor/run-checks.js";
import { resolveHome } from "../../home/state-directory.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { sessionToken } from "../client/requester.js";
import type { JsonFlag } from "../options/command-definition.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { print, toJson } from "../print/write-output.js";
import { processesJson } from "../runs/processes.js";

/** Checks everything Holdfast depends on. Changes nothing. */
export async function runDoctor({ json = false }: JsonFlag): Promise<number> {
  const { checks, processes } = await runChecks(resolveHome(), {
    isOperator: sessionToken() === null,
  });
  if (json) {
    const runs = [...processes].map(([runId, run]) => ({ runId, ...processesJson(run) }));
    print(toJson({ ok: checks.every(({ state }) => state !== "bad"), checks, runs }, 2));
  } else print(`${checks.flatMap(checkLines).join("\n")}\n`);
  return checks.some(({ state }) => state === "bad") ? 1 : 0;
}

function checkLines({ name, state, detail, remedy }: Check): string[] {
  const palette = paletteFor(1);
  const sign = { ok: palette.green("ok  "), warn: palette.yellow("warn"), bad: palette.red("bad ") }[state];
  const first = `${sign}  ${name.padEnd(15)}  ${sanitizeLine(detail)}`;
  return remedy === null ? [first] : [first, `${" ".repeat(23)}→ ${sanitizeLine(remedy)}`];
}

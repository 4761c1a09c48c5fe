import { findAnchorBinary } from "../../anchor/binary.js";
import {
  findRunsWithoutState,
  isRunWithoutStateGone,
  type RunWithoutState,
  stopRunWithoutState,
} from "../../anchor/inspect/runs-without-state-directory.js";
import { defaults } from "../../defaults.js";
import { errorMessage } from "../../home/errno.js";
import { resolveHome } from "../../home/state-directory.js";
import {
  CLEANUP_COMMAND,
  listRunsWithoutState,
  type NamedRun,
  runWithoutStateText,
} from "../../queries/runs-without-state.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { sessionToken } from "../client/requester.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { confirm } from "../print/terminal-prompt.js";
import { paletteFor } from "../print/colours-and-progress.js";

/** Empty for a session. */
export async function runsWithoutStateForOperator(): Promise<readonly RunWithoutState[]> {
  return sessionToken() === null ? listRunsWithoutState(resolveHome()) : [];
}

/** One line per run, for commands that list runs. */
export async function printRunsWithoutState(): Promise<void> {
  printWithoutState(await runsWithoutStateForOperator());
}

export function printWithoutState(runs: readonly NamedRun[]): void {
  for (const run of runs)
    // A run whose directory is not known may belong to another state directory that is in use.
    if (run.directory !== null)
      notice(`${runWithoutStateText(run)}; \`${CLEANUP_COMMAND}\` ends it`, "yellow");
}

interface EndResult {
  readonly runId: string;
  readonly instanceId: string;
  readonly outcome: "gone" | "survivors" | "unproven" | "left-alone";
  readonly detail: string;
}

/** Shows the runs with evidence, asks for confirmation, ends them, and prints the results. */
export async function cleanupWithoutState({
  run: wanted,
  dryRun = false,
  yes = false,
  json = false,
}: {
  /** Only this run, by its whole id. */
  readonly run?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}): Promise<number> {
  assertOperator("end processes without an owner");
  const all = await findRunsWithoutState(findAnchorBinary(), resolveHome());
  const found = all.filter(({ runId }) => wanted === undefined || runId === wanted);
  if (!json && found.length > 0) print(`${found.flatMap(runLines).join("\n")}\n`);
  if (!json && found.length === 0)
    notice(
      wanted === undefined
        ? "every run has a state directory"
        : `not among the runs without a state directory: ${wanted}`,
      "dim",
    );
  const endable = found.filter(({ whyNot }) => whyNot === null);
  if (dryRun || endable.length === 0) {
    if (json) print(toJson({ runs: found }, 2));
    return dryRun || found.length === 0 ? 0 : exitCodes.incomplete;
  }
  const question = endable.length === 1 ? "End this run?" : `End these ${endable.length} runs?`;
  if (!(await confirm(question, yes))) {
    notice("nothing was changed", "dim");
    return exitCodes.incomplete;
  }
  // An owner that has come back during the confirmation keeps its run.
  const now = await findRunsWithoutState(findAnchorBinary(), resolveHome());
  const ended = await Promise.all(found.map((run) => endRun(run, now)));
  if (json) print(toJson({ runs: found.map((run, at) => ({ ...run, ...ended[at] })) }, 2));
  else
    for (const { runId, outcome, detail } of ended) print(`${runId}: ${outcome}: ${sanitizeLine(detail)}\n`);
  return ended.every(({ outcome }) => outcome === "gone") ? 0 : exitCodes.incomplete;
}

async function endRun(run: RunWithoutState, now: readonly RunWithoutState[]): Promise<EndResult> {
  const { runId, instanceId } = run;
  const still = now.find((each) => each.runId === runId && each.instanceId === instanceId);
  const leave = (detail: string): EndResult => ({ runId, instanceId, outcome: "left-alone", detail });
  if (still !== undefined && still.whyNot !== null) return leave(still.whyNot);
  try {
    if (still === undefined)
      return (await isRunWithoutStateGone(findAnchorBinary(), run))
        ? { runId, instanceId, outcome: "gone", detail: "it has ended by itself" }
        : leave("it is no longer without a state directory");
    const { verified, why, killed, survivors, emptiness } = await stopRunWithoutState(
      findAnchorBinary(),
      still,
      defaults.graceMs,
    );
    if (!verified) return leave(why);
    const names = survivors.map(({ pid, command }) => `${pid} ${command}`).join(", ");
    if (survivors.length > 0) return { runId, instanceId, outcome: "survivors", detail: names };
    const detail = `${why}; processes ended: ${killed}`;
    return emptiness === "proven"
      ? { runId, instanceId, outcome: "gone", detail }
      : { runId, instanceId, outcome: "unproven", detail: `${detail}; it is not proven that none is left` };
  } catch (error) {
    return leave(errorMessage(error));
  }
}

function runLines(run: RunWithoutState): string[] {
  const { bold, dim } = paletteFor(1);
  const { runId, instanceId, processes, evidence, whyNot } = run;
  return [
    `${bold(runId)}  instance ${instanceId}`,
    ...processes.map(({ identity, command }) => `  ${identity.pid}  ${sanitizeLine(command)}`),
    ...evidence.map((fact) => `  evidence: ${sanitizeLine(fact)}`),
    `  ${dim(whyNot === null ? "would: end it, the anchor last" : `would: leave it alone: ${whyNot}`)}`,
  ];
}

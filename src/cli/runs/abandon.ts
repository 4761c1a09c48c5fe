import type { AnchorEvent } from "../../anchor/host-interface.js";
import { describeSurvivor } from "../../model/process.js";
import { NothingToAbandon, RunNotFound } from "../../errors.js";
import { newRequestId } from "../../model/ids.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { cliActor } from "../client/requester.js";
import { resolveRun } from "../client/resolve-run.js";
import { isOwnedElsewhere, openLocalState } from "../../queries/local-state-directory.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { confirm } from "../print/terminal-prompt.js";

/** Ends the record of a run whose processes cannot be killed. Its anchor knows them, and refuses if there are none. */
export async function abandonRun(wanted: string, yes: boolean, json: boolean): Promise<number> {
  assertOperator("abandon a run");
  await using localState = await openLocalState();
  const found = localState === null ? null : await resolveRun(localState, wanted);
  if (localState === null || found === null) throw new RunNotFound(wanted);
  const { runId, address } = found;
  if (await isOwnedElsewhere(localState, found))
    throw new NothingToAbandon(
      runId,
      "it belongs to another host or state directory: abandon it there, or use `holdfast runs forget` if that will not come back",
    );
  const link = address === null ? null : await localState.host.attach(address, 0);
  if (link === null || address === null)
    throw new NothingToAbandon(
      runId,
      "no anchor answers for it; `holdfast runs cleanup` or a gateway ends what is verifiably left, and its record",
    );
  try {
    if (link.welcome.phase !== "exiting")
      throw new NothingToAbandon(runId, "it has not been stopped; `holdfast runs stop` stops it");
    if (!(await confirm(`Abandon ${runId}? Its processes stay, and its record ends as lost.`, yes))) {
      notice("nothing was changed", "dim");
      return exitCodes.incomplete;
    }
    const answer = await new Promise<AnchorEvent>((resolve) => {
      link.listen((event) => {
        if (event.type === "exited" || event.type === "refused" || event.type === "closed") resolve(event);
      });
      link.abandon({ actor: cliActor(), requestId: newRequestId() });
    });
    if (answer.type === "refused") throw new NothingToAbandon(runId, answer.message);
    const exit = answer.type === "exited" ? answer.exit : (await localState.host.readRunFiles(address)).exit;
    if (exit === null)
      throw new NothingToAbandon(
        runId,
        "its anchor ended without an answer; `holdfast runs cleanup` shows what is left",
      );
    // They may have ended before: then the run ended normally.
    const abandoned = exit.emptiness === "unproven";
    const left = abandoned ? exit.residue : [];
    const outcome = abandoned ? "abandoned" : "gone";
    if (json) print(toJson({ runId, outcome, left }));
    else if (abandoned)
      print(
        `${runId} was abandoned; left: ${left.map((each) => sanitizeLine(describeSurvivor(each))).join(", ") || "not known"}\n`,
      );
    else
      print(
        `${runId} is gone (${sanitizeLine(exit.reason)}, proven empty): there was nothing left to abandon\n`,
      );
    return 0;
  } finally {
    link.close();
  }
}

import { BadInput } from "../../errors.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import { NAME_LABEL } from "../options/run-name.js";
import { openRunView } from "./run-view.js";

/** Rejects if an open run has that name. Two runs started at the same moment can both get it. */
export async function assertNameIsFree(name: string): Promise<void> {
  await using runs = await openRunView();
  const [taken] =
    (await runs.view?.listRuns({ labels: { [NAME_LABEL]: name }, states: OPEN_RUN_STATES, limit: 1 })) ?? [];
  if (taken !== undefined)
    throw new BadInput(
      "name",
      `the open run ${taken.runId} has the name ${name}; stop it first, or use another name. Nothing was started`,
    );
}

import { resolveHome } from "../../store/state-directory.js";
import { exitCodes } from "../exit-code.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { say } from "../complain.js";
import { mustBeOperator, mustBeOutside } from "./connect.js";
import { sayStopped, startInBackground, stopFacts } from "./control.js";
import { stopGateway } from "./stop.js";

export async function restartInBackground(json: boolean): Promise<number> {
  mustBeOperator("restart the gateway");
  mustBeOutside("restarted");
  const stopped = await stopGateway(resolveHome(), { runs: "leave", waitMs: 0 });
  if (stopped.kind === "left") {
    say(`${stopped.message}. The gateway was not restarted`, "yellow");
    if (json) print(toJson(stopFacts(stopped)));
    return exitCodes.incomplete;
  }
  if (!json)
    if (stopped.kind === "none") say("no gateway was running", "dim");
    else sayStopped(stopped);
  return startInBackground(json);
}

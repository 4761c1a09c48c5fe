import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { needGateway } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { namesOf } from "./ending.js";
import { pickSession } from "./pick-session.js";

/** Close a session; every process of it is gone when this says so. */
export async function closeSession(wanted: string, discard: boolean, json: boolean): Promise<number> {
  const { client } = await needGateway();
  const { sessionId, key } = await pickSession(client, wanted);
  const answer = await client.acpClose({
    params: { id: sessionId },
    body: { discardPersistentState: discard },
  });
  const { survivors, emptiness } = answer;
  if (json) print(toJson(answer));
  else if (emptiness === "unproven")
    print(
      `${key} (${sessionId}) is closed, on record; whether any of its processes still runs where it was is not known\n`,
    );
  else if (survivors.length === 0) print(`${key} (${sessionId}) is closed; none of its processes is left\n`);
  else
    say(
      `${key} (${sessionId}) closes when these are gone, which survive their KILL: ${namesOf(survivors)}`,
      "red",
    );
  return survivors.length === 0 ? 0 : exitCodes.incomplete;
}

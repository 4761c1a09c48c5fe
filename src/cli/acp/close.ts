import { needGateway } from "../gateway/connect.js";
import { print } from "../runs/print.js";
import { toJson } from "./json.js";
import { pickSession } from "./pick-session.js";

/** Close a session; every process of it is gone when this says so. */
export async function closeSession(wanted: string, discard: boolean, json: boolean): Promise<number> {
  const { client } = await needGateway();
  const { sessionId, key } = await pickSession(client, wanted);
  const { session } = await client.acpClose({
    params: { id: sessionId },
    body: { discardPersistentState: discard },
  });
  if (json) print(toJson({ session }));
  else print(`${key} (${sessionId}) is closed; none of its processes is left\n`);
  return 0;
}

import { NotFound } from "../../errors.js";
import { resolveHome } from "../../home/state-directory.js";
import { storeLocationName } from "../../store/location.js";
import { checkStoreAt } from "../../store/open.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { exitCodes } from "../print/exit-code.js";
import { print, toJson } from "../print/stdout.js";
import { parseNamedStore, storeInUse } from "./location.js";

export async function printStoreCheck(wanted: string | null, json: boolean): Promise<number> {
  const location = wanted === null ? await storeInUse() : await parseNamedStore(wanted);
  const found = location === null ? null : await checkStoreAt(location);
  const name = location === null ? resolveHome() : storeLocationName(location);
  if (wanted !== null && found === null) throw new NotFound(`store at ${name}`);
  if (json) print(toJson({ store: name, ...found, exists: found !== null }, 2));
  else if (found === null) print(`${sanitizeLine(name)} has no records yet\n`);
  else {
    const { schema, damage, runs, events } = found;
    const state = damage === null ? "can be used" : `is damaged: ${damage}`;
    print(
      sanitizeLine(
        `${name} ${state}; schema ${schema}, ${runs.open} open and ${runs.ended} ended runs, ${events} events`,
      ) + "\n",
    );
  }
  return (found?.damage ?? null) === null ? 0 : exitCodes.refused;
}

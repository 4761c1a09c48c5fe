import { rename } from "node:fs/promises";
import { join, resolve } from "node:path";
import { postgresUrlProblem } from "../../config/postgres-url.js";
import { BadInput } from "../../errors.js";
import { writeOwnFile } from "../../home/own-file.js";
import { openStateDirectory } from "../../home/state-directory.js";

/** The database that the environment names, for a unit that has no such environment and can be read by others. */
export interface UnitDatabase {
  readonly environment: Readonly<Record<string, string>>;
  /** Where its address will be; null: where it is already, or there is none. */
  readonly file: string | null;
  save(): Promise<void>;
}

/** What the config file says, the gateway reads by itself. */
export function unitDatabase(env: Readonly<Record<string, string | undefined>>, home: string): UnitDatabase {
  const variable = "HOLDFAST_DATABASE_URL_FILE";
  const url = env["HOLDFAST_DATABASE_URL"] ?? "";
  const named = env[variable] ?? "";
  if (url === "") {
    const environment = named === "" ? {} : { [variable]: resolve(named) };
    return { environment, file: null, save: async () => {} };
  }
  const problem = postgresUrlProblem(url);
  if (problem !== null)
    throw new BadInput(
      "HOLDFAST_DATABASE_URL",
      `the database's address in HOLDFAST_DATABASE_URL ${problem}; nothing was written`,
    );
  const file = join(home, "database-url");
  return {
    environment: { [variable]: file },
    file,
    async save() {
      await openStateDirectory(home);
      const draft = `${file}.new`;
      writeOwnFile(draft, `${url}\n`);
      await rename(draft, file);
    },
  };
}

import { join, resolve } from "node:path";
import { postgresUrlProblem } from "../../config/postgres-url.js";
import { BadInput } from "../../errors.js";
import { writeOwnFile } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import { openStateDirectory } from "../../store/open-state-directory.js";

/** The gateway as a service of the system starts it. */
export interface GatewayService {
  readonly node: string;
  readonly main: string;
  /** Readable by other users: no secrets. */
  readonly environment: Readonly<Record<string, string>>;
}

/** The database of the environment, for a unit that does not have that environment and that other users can read. */
interface UnitDatabase {
  readonly environment: Readonly<Record<string, string>>;
  /** The file for its URL; null: it is in a file already, or there is none. */
  readonly file: string | null;
  save(): Promise<void>;
}

/** The gateway reads the config file itself. */
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
      `the database URL in HOLDFAST_DATABASE_URL ${problem}; nothing was written`,
    );
  const file = join(home, "database-url");
  return {
    environment: { [variable]: file },
    file,
    async save() {
      await openStateDirectory(home);
      const draft = `${file}.new`;
      writeOwnFile(draft, `${url}\n`);
      await renameFile(draft, file);
    },
  };
}

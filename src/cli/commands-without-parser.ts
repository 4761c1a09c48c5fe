import { defaults } from "../defaults.js";
import { StoreUnreadable } from "../errors.js";
import { packageVersion } from "../home/package.js";
import { isStoreFailure } from "../store/open.js";
import { showGatewayStatus } from "./gateway/status.js";
import { print } from "./print/write-output.js";
import { printRuns } from "./runs/list.js";
import { showPs } from "./runs/ps.js";
import { rejectForeignState, reportReadableSecrets } from "./check-state-directory.js";

/** The options of plain commands: each is a flag. */
interface Flags {
  readonly all?: true;
  readonly json?: true;
}

interface PlainCommand {
  readonly options: readonly string[];
  /** If the store cannot be read, the command fails with STORE_UNREADABLE. */
  readonly isLookup: boolean;
  readonly run: (flags: Flags) => Promise<number>;
}

const listRuns: PlainCommand = {
  options: ["-a", "--all", "--json"],
  isLookup: true,
  run: (flags) => printRuns({ ...flags, limit: defaults.listedRuns }),
};

const showGateway: PlainCommand = {
  options: ["--json"],
  isLookup: false,
  run: (flags) => showGatewayStatus(flags),
};

/**
 * Frequent commands with their frequent options, which program.ts defines too. They are executed without commander, because
 * loading it and building its commands takes longer than the answer of the gateway.
 */
const PLAIN_COMMANDS: Readonly<Record<string, PlainCommand>> = {
  ps: {
    options: ["-a", "--all", "--json"],
    isLookup: false,
    run: (flags) => showPs(flags),
  },
  runs: listRuns,
  "runs list": listRuns,
  gateway: showGateway,
  "gateway status": showGateway,
};

const FLAG_NAMES: Readonly<Record<string, keyof Flags>> = { "-a": "all", "--all": "all", "--json": "json" };

/** Null: the command line needs a parser, which also reports what is wrong with it. */
export async function runPlainCommand(words: readonly string[]): Promise<number | null> {
  if (words.length === 1 && (words[0] === "--version" || words[0] === "-V")) {
    print(`${packageVersion()}\n`);
    return 0;
  }
  const options = words.filter((word) => word.startsWith("-"));
  const path = words.slice(0, words.length - options.length);
  // Options come after the words of the command.
  if (path.some((word) => word.startsWith("-"))) return null;
  const name = path.join(" ");
  const command = Object.hasOwn(PLAIN_COMMANDS, name) ? PLAIN_COMMANDS[name] : undefined;
  if (command === undefined || !options.every((option) => command.options.includes(option))) return null;
  const flags: Flags = Object.fromEntries(options.map((option) => [FLAG_NAMES[option], true]));
  try {
    reportReadableSecrets();
    await rejectForeignState();
    return await command.run(flags);
  } catch (error) {
    throw command.isLookup && isStoreFailure(error) && !(error instanceof StoreUnreadable)
      ? new StoreUnreadable(path.join(" "), error)
      : error;
  }
}

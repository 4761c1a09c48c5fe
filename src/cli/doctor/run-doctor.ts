import { checkChannel, describeChannel } from "../../channels/check-channel.js";
import { configPath } from "../../config/file.js";
import { readSettings } from "../../config/settings.js";
import { errorMessage } from "../../home/errno.js";
import { readableSecrets } from "../../home/path-trust.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { openLocalState } from "../client/local-state-directory.js";
import type { JsonFlag } from "../options/command-definition.js";
import { print, toJson } from "../print/write-output.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { processesJson } from "../runs/processes.js";
import { bad, type Check, ok, warn } from "./check-result.js";
import { checkDatabase } from "./database.js";
import { checkProcessLimits } from "./linux.js";
import { checkClock, checkRuns, checkRunsWithoutState, type RunChecks } from "./instances-and-runs.js";
import { checkState, checkStoreHistory, checkStoreWrites } from "./state-and-store.js";
import { checkSystem } from "./operating-system.js";

/**
 * Checks each channel of the config file without sending anything. A config file that cannot be read is reported
 * elsewhere.
 */
async function checkChannels(): Promise<Check[]> {
  const channels = await readSettings().then(
    ({ config }) => Object.entries(config.channels),
    () => [],
  );
  return Promise.all(
    channels.map(async ([channel, entry]) => {
      const name = `channel ${channel}`;
      const problems = await checkChannel(entry);
      const worst = problems.find(({ fatal }) => fatal) ?? problems[0];
      if (worst === undefined) return ok(name, `${entry.kind}: ${describeChannel(entry)}`);
      const detail = `${entry.kind}: ${problems.map(({ what }) => what).join("; ")}`;
      return worst.fatal ? bad(name, detail, worst.remedy) : warn(name, detail, worst.remedy);
    }),
  );
}

/** Checks everything Holdfast depends on. Changes nothing. */
export async function runDoctor({ json = false }: JsonFlag): Promise<number> {
  const { checks, processes } = await allChecks();
  if (json) {
    const runs = [...processes].map(([runId, run]) => ({ runId, ...processesJson(run) }));
    print(toJson({ ok: checks.every(({ state }) => state !== "bad"), checks, runs }, 2));
  } else print(`${checks.flatMap(checkLines).join("\n")}\n`);
  return checks.some(({ state }) => state === "bad") ? 1 : 0;
}

async function allChecks(): Promise<RunChecks> {
  const { checks, directory } = await checkState();
  const config = [await checkConfig(), ...(await checkChannels())];
  const database = await checkDatabase();
  config.push(...readableSecrets().map((message) => warn("secret", message)));
  const kernel = await checkSystem();
  const withoutState = await checkRunsWithoutState();
  if (directory === null)
    return {
      checks: [
        ...checks,
        ...database,
        ...config,
        ...kernel,
        ...withoutState,
        ...(await checkProcessLimits()),
      ],
      processes: new Map<string, never>(),
    };
  await using localState = await openLocalState().catch(() => null);
  const runs =
    localState === null ? { checks: [], processes: new Map<string, never>() } : await checkRuns(localState);
  const history = await checkStoreHistory(directory);
  const all = [
    ...checks,
    ...(await checkStoreWrites(directory)),
    ...database,
    ...history,
    ...config,
    ...kernel,
    ...runs.checks,
    ...withoutState,
    await checkClock(directory),
    ...(await checkProcessLimits()),
  ];
  return { checks: all, processes: runs.processes };
}

async function checkConfig(): Promise<Check> {
  const path = configPath();
  return readSettings().then(
    ({ config: { foreign }, entries: each }) => {
      const keys = each.filter(({ from }) => from === "file").map(({ key }) => key);
      const profiles = foreign.map(({ name }) => name).join(", ");
      const set = keys.length === 0 ? `${path}: nothing is set` : `${path} sets ${keys.join(", ")}`;
      return ok("config", profiles === "" ? set : `${set}; foreign profiles: ${profiles}`);
    },
    (error: unknown) => bad("config", errorMessage(error), `correct ${path}`),
  );
}

function checkLines({ name, state, detail, remedy }: Check): string[] {
  const palette = paletteFor(1);
  const sign = { ok: palette.green("ok  "), warn: palette.yellow("warn"), bad: palette.red("bad ") }[state];
  const first = `${sign}  ${name.padEnd(15)}  ${sanitizeLine(detail)}`;
  return remedy === null ? [first] : [first, `${" ".repeat(23)}→ ${sanitizeLine(remedy)}`];
}

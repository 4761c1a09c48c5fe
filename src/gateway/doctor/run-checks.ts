import { checkChannel, describeChannel } from "../../channels/check-channel.js";
import { configPath } from "../../config/file.js";
import { readSettings } from "../../config/resolve-settings.js";
import { errorMessage } from "../../home/errno.js";
import { readableSecrets } from "../../home/path-trust.js";
import { openLocalState } from "../../queries/local-state-directory.js";
import { checkBoundaryOutsideLinux } from "./boundary-outside-linux.js";
import { bad, type Check, ok, warn } from "./check-result.js";
import { checkDatabase } from "./database.js";
import { checkKernel, checkProcessLimits } from "./linux.js";
import { checkClock, checkRuns, checkRunsWithoutState, type RunChecks } from "./instances-and-runs.js";
import { checkState, checkStoreHistory, checkStoreWrites } from "./state-and-store.js";

export type { Check };

/** Checks everything Holdfast depends on. Changes nothing. */
export async function runChecks(
  home: string,
  { isOperator = true }: { readonly isOperator?: boolean } = {},
): Promise<RunChecks> {
  const { checks, directory } = await checkState(home);
  const config = [await checkConfig(), ...(await checkChannels())];
  const database = await checkDatabase();
  config.push(...readableSecrets().map((message) => warn("secret", message)));
  const system = await (process.platform === "linux" ? checkKernel(home) : checkBoundaryOutsideLinux());
  const withoutState = isOperator ? await checkRunsWithoutState(home) : [];
  if (directory === null)
    return {
      checks: [
        ...checks,
        ...database,
        ...config,
        ...system,
        ...withoutState,
        ...(await checkProcessLimits()),
      ],
      processes: new Map<string, never>(),
    };
  await using localState = await openLocalState(home).catch(() => null);
  const runs =
    localState === null ? { checks: [], processes: new Map<string, never>() } : await checkRuns(localState);
  const history = await checkStoreHistory(directory);
  const all = [
    ...checks,
    ...(await checkStoreWrites(directory)),
    ...database,
    ...history,
    ...config,
    ...system,
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

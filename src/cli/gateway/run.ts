import { findAnchorBinary, requireSameVersion } from "../../anchor/binary.js";
import { inspectProcesses } from "../../anchor/inspect/processes.js";
import { databaseUrl, migrationMode } from "../../config/database-url.js";
import { configPath, readConfigFile } from "../../config/file.js";
import {
  readSettings,
  resolveSettings,
  type SettingFlags,
  settingsToToml,
} from "../../config/resolve-settings.js";
import { StoreAway, StoreOutdated } from "../../errors.js";
import { type GatewayEvent, openGateway } from "../../gateway/gateway.js";
import { logEvent, openLog } from "../../gateway/log.js";
import { resolveHome } from "../../home/state-directory.js";
import { openStoreForReading } from "../../store/open.js";
import { findStateDirectory, openStateDirectory } from "../../store/open-state-directory.js";
import { assertOutsideRun } from "../client/connect.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Resolves at the first stop signal; a second one ends the process at once. */
export async function runGateway({
  json,
  quiet,
  waits,
  flags,
}: {
  readonly json: boolean;
  readonly quiet: boolean;
  /** Waits for a store that is unavailable. */
  readonly waits: boolean;
  /** Settings by key, which override the config file. */
  readonly flags: SettingFlags;
}): Promise<number> {
  assertOutsideRun("run");
  const stopSignal = awaitStopSignal();
  const { home } = await openStateDirectory(resolveHome());
  const path = configPath();
  const text = await readConfigFile(path);
  const { config } = resolveSettings(text, path, flags, process.env);
  const log = openLog(home, config.gateway["log-level"]);
  const show = json ? printEventAsJson : quiet ? () => {} : printEventAsText;
  const waiting = new AbortController();
  void stopSignal.then(() => waiting.abort());
  const gateway = await openGateway({
    home,
    config,
    configText: settingsToToml(text, path, flags, process.env),
    waitForStore: waits,
    signal: waiting.signal,
    onEvent: (event) => {
      logEvent(log, event);
      show(event);
    },
  }).catch((error: unknown) => {
    // It was stopped before it had runs to detach from.
    if (error instanceof StoreAway && waiting.signal.aborted) return null;
    throw error;
  });
  if (gateway === null) return 0;
  const replaced = await Promise.race([stopSignal, gateway.stopRequested, gateway.replaced]);
  if (replaced !== undefined) {
    // Exit without cleanup: directory, socket and the row in the store belong to the other process.
    notice(replaced.message, "red");
    return exitCodes.failure;
  }
  if (!json && !quiet) notice("detaching from the runs; a second signal exits at once", "dim");
  void awaitStopSignal().then(() => process.exit(0));
  await gateway.stop();
  return 0;
}

/** Checks that a gateway could start: its configuration, store and anchor. Changes nothing; rejects with the problem. */
export async function checkGatewayCanStart(flags: SettingFlags): Promise<number> {
  await readSettings(flags);
  const directory = await findStateDirectory(resolveHome());
  const mode = (await databaseUrl()) === null ? "auto" : await migrationMode();
  const store = await openStoreForReading(directory?.storePath ?? null).catch((error: unknown) => {
    if (error instanceof StoreOutdated && mode === "auto") return null;
    throw error;
  });
  await store?.[Symbol.asyncDispose]();
  const anchor = findAnchorBinary();
  requireSameVersion(anchor);
  await inspectProcesses(anchor, [process.pid], { brief: true });
  return 0;
}

function awaitStopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of SIGNALS) process.once(signal, () => resolve());
  });
}

function printEventAsJson(event: GatewayEvent): void {
  try {
    print(toJson({ at: Date.now(), ...event }));
  } catch {
    // A full disk below its log must not end the gateway.
  }
}

function printEventAsText(event: GatewayEvent): void {
  switch (event.type) {
    case "up":
      return notice(`gateway ${event.instanceId} is up (pid ${event.pid}), state in ${event.home}`, "dim");
    case "ready":
      return notice(event.held === 0 ? "ready" : `ready; it holds ${runCount(event.held)}`, "dim");
    case "decision":
      return notice(`${event.runId}: ${event.action}: ${event.why}`, "dim");
    case "retained":
      return notice(
        `deleted ${runCount(event.records, "ended ")} and the output of ${event.outputs} more, ${event.sessions} closed sessions, ${event.approvals} answered approvals, ${event.messages} old messages`,
        "dim",
      );
    case "denied":
      return notice(`${event.actor} may not see ${event.what} (${event.rule})`, "dim");
    case "problem":
      return notice(event.cause === "" ? event.message : `${event.message} (${event.cause})`, "yellow");
    case "waiting":
      return notice(
        `waiting for the store: ${event.why}${event.held === 0 ? "" : ` ${runCount(event.held)} continue meanwhile.`}`,
        "yellow",
      );
    case "down":
      return notice(
        event.left === 0
          ? "gateway is down"
          : `gateway is down; left to their anchors: ${runCount(event.left)}`,
        "dim",
      );
  }
}

function runCount(count: number, kind = ""): string {
  return count === 1 ? `1 ${kind}run` : `${count} ${kind}runs`;
}

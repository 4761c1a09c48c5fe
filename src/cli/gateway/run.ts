import { findAnchor, requireSameRelease } from "../../anchor/find.js";
import { inspect } from "../../anchor/inspect.js";
import { StoreAway, StoreOutdated } from "../../errors.js";
import { openGateway, type GatewayNews } from "../../gateway/gateway.js";
import { logNews, openLog } from "../../gateway/log.js";
import { readSettings, resolveSettings, settingsAsFile, type Flags } from "../../gateway/settings.js";
import { configPath, readConfigFile } from "../../store/config-file.js";
import { databaseAddress, migrationMode } from "../../store/database-address.js";
import { openStoreForReading } from "../../store/open.js";
import { findStateDirectory, openStateDirectory, resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { toJson } from "../json.js";
import { mustBeOutside } from "./connect.js";
import { print } from "../runs/print.js";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Until told to stop; told twice, at once. */
export async function runGateway({
  json,
  quiet,
  waits,
  flags,
}: {
  readonly json: boolean;
  readonly quiet: boolean;
  /** For a store that is away. */
  readonly waits: boolean;
  /** Settings by their keys, over the config file. */
  readonly flags: Flags;
}): Promise<number> {
  mustBeOutside("run");
  const told = stopRequested();
  const { home } = await openStateDirectory(resolveHome());
  const path = configPath();
  const text = await readConfigFile(path);
  const { config } = resolveSettings(text, path, flags, process.env);
  const log = openLog(home, config.gateway["log-level"]);
  const show = json ? asJson : quiet ? () => {} : asText;
  const waiting = new AbortController();
  void told.then(() => waiting.abort());
  const gateway = await openGateway({
    home,
    config,
    configText: settingsAsFile(text, path, flags, process.env),
    waits,
    signal: waiting.signal,
    onNews: (news) => {
      logNews(log, news);
      show(news);
    },
  }).catch((error: unknown) => {
    // It was told to stop, and had nothing yet to let go of.
    if (error instanceof StoreAway && waiting.signal.aborted) return null;
    throw error;
  });
  if (gateway === null) return 0;
  const taken = await Promise.race([told, gateway.asked, gateway.taken]);
  if (taken !== undefined) {
    // Exit without cleanup: directory, socket and the row in the store belong to the other process.
    say(taken.message, "red");
    return exitCodes.failure;
  }
  if (!json && !quiet) say("letting go of the runs; once more to leave at once", "dim");
  void stopRequested().then(() => process.exit(0));
  await gateway.stop();
  return 0;
}

/** Whether a gateway could start: its configuration, store and anchor. Changes nothing; rejects with what is wrong. */
export async function checkStart(flags: Flags): Promise<number> {
  await readSettings(flags);
  const directory = await findStateDirectory(resolveHome());
  const mode = (await databaseAddress()) === null ? "auto" : await migrationMode();
  const store = await openStoreForReading(directory?.storePath ?? null).catch((error: unknown) => {
    if (error instanceof StoreOutdated && mode === "auto") return null;
    throw error;
  });
  await store?.[Symbol.asyncDispose]();
  const anchor = findAnchor();
  requireSameRelease(anchor);
  await inspect(anchor, [process.pid], { brief: true });
  return 0;
}

function stopRequested(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of SIGNALS) process.once(signal, () => resolve());
  });
}

function asJson(news: GatewayNews): void {
  try {
    print(toJson({ at: Date.now(), ...news }));
  } catch {
    // A full disk under its log is no reason to leave its runs.
  }
}

function asText(news: GatewayNews): void {
  switch (news.type) {
    case "up":
      return say(`gateway ${news.instanceId} is up (pid ${news.pid}), state in ${news.home}`, "dim");
    case "ready":
      return say(news.held === 0 ? "ready" : `ready; it holds ${runs(news.held)}`, "dim");
    case "decision":
      return say(`${news.runId}: ${news.action}: ${news.why}`, "dim");
    case "retained":
      return say(
        `forgot ${runs(news.records, "ended ")} and the output of ${news.outputs} more, ${news.sessions} closed sessions, ${news.approvals} answered approvals, ${news.messages} old messages`,
        "dim",
      );
    case "denied":
      return say(`${news.actor} was not shown ${news.what} (${news.rule})`, "dim");
    case "problem":
      return say(news.cause === "" ? news.message : `${news.message} (${news.cause})`, "yellow");
    case "waiting":
      return say(
        `waiting for the store: ${news.why}${news.held === 0 ? "" : ` ${runs(news.held)} kept meanwhile.`}`,
        "yellow",
      );
    case "down":
      return say(
        news.left === 0 ? "gateway is down" : `gateway is down; left to their anchors: ${runs(news.left)}`,
        "dim",
      );
  }
}

function runs(count: number, kind = ""): string {
  return count === 1 ? `1 ${kind}run` : `${count} ${kind}runs`;
}

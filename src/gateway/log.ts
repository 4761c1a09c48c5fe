import { lstatSync, rmSync } from "node:fs";
import { join } from "node:path";
import { defaults } from "../defaults.js";
import { requireNotLink, writeOwnFile } from "../home/own-file.js";
import { renameFileSync } from "../home/rename-file.js";
import type { GatewayEvent } from "./gateway.js";

export const gatewayLogPath = (home: string): string => join(home, "gateway.log");

/** The levels with their numbers in the log, which are those of pino, so that viewers of pino's logs show them. */
const LEVELS = { info: 30, warn: 40 } as const;

type Logger = Readonly<Record<keyof typeof LEVELS, (facts: object, message: string) => void>>;

/** One JSON object per line, in a few small files: a gateway runs for months. */
export function openLog(home: string, level: "info" | "warn" | "silent"): Logger {
  const path = gatewayLogPath(home);
  requireNotLink(path);
  const least = level === "silent" ? Infinity : LEVELS[level];
  const write =
    (of: keyof typeof LEVELS): Logger["info"] =>
    (facts, message) => {
      if (LEVELS[of] < least) return;
      const line = { level: LEVELS[of], time: new Date().toISOString(), pid: process.pid, ...facts, message };
      appendLine(path, `${JSON.stringify(line)}\n`);
    };
  return { info: write("info"), warn: write("warn") };
}

/** A full disk loses log lines only. */
function appendLine(path: string, line: string): void {
  try {
    rotateFiles(path);
    writeOwnFile(path, line, "append");
  } catch {
    // There is no other place to report it.
  }
}

function rotateFiles(path: string): void {
  const size = lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size < defaults.logBytes) return;
  rmSync(`${path}.${defaults.logFiles - 1}`, { force: true });
  for (let number = defaults.logFiles - 2; number >= 1; number--)
    renameIfExists(`${path}.${number}`, `${path}.${number + 1}`);
  renameIfExists(path, `${path}.1`);
}

function renameIfExists(from: string, to: string): void {
  if (lstatSync(from, { throwIfNoEntry: false }) !== undefined) renameFileSync(from, to);
}

export function logEvent(log: Logger, event: GatewayEvent): void {
  const { type, ...facts } = event;
  if (type === "problem") log.warn(facts, event.message);
  else if (type === "waiting") log.warn(facts, type);
  else log.info(facts, type);
}

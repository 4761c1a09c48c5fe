import { lstatSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pino, type Logger } from "pino";
import { defaults } from "../defaults.js";
import { requireNotLink, writeOwnFile } from "../home/own-file.js";
import { renameFileSync } from "../home/rename-file.js";
import type { GatewayEvent } from "./gateway.js";

export const gatewayLogPath = (home: string): string => join(home, "gateway.log");

/** One JSON object per line, in a few small files: a gateway runs for months. */
export function openLog(home: string, level: "info" | "warn" | "silent"): Logger {
  requireNotLink(gatewayLogPath(home));
  return pino(
    { level, base: { pid: process.pid }, messageKey: "message", timestamp: pino.stdTimeFunctions.isoTime },
    {
      write: (line: string) => appendLine(gatewayLogPath(home), line),
    },
  );
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

import { lstatSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pino, type Logger } from "pino";
import { defaults } from "../defaults.js";
import { requireNotLink, writeOwnFile } from "../store/own-file.js";
import type { GatewayNews } from "./gateway.js";

export const gatewayLog = (home: string): string => join(home, "gateway.log");

/** One JSON object per line. Small files, and few of them: a gateway runs for months. */
export function openLog(home: string, level: "info" | "warn" | "silent"): Logger {
  requireNotLink(gatewayLog(home));
  return pino(
    { level, base: { pid: process.pid }, messageKey: "message", timestamp: pino.stdTimeFunctions.isoTime },
    {
      write: (line: string) => writeLine(gatewayLog(home), line),
    },
  );
}

/** A disk that is full loses lines of a log, and nothing else. */
function writeLine(path: string, line: string): void {
  try {
    rotate(path);
    writeOwnFile(path, line, "append");
  } catch {
    // Nowhere to say it.
  }
}

function rotate(path: string): void {
  const size = lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size < defaults.logBytes) return;
  rmSync(`${path}.${defaults.logFiles - 1}`, { force: true });
  for (let number = defaults.logFiles - 2; number >= 1; number--)
    move(`${path}.${number}`, `${path}.${number + 1}`);
  move(path, `${path}.1`);
}

function move(from: string, to: string): void {
  if (lstatSync(from, { throwIfNoEntry: false }) !== undefined) renameSync(from, to);
}

export function logNews(log: Logger, news: GatewayNews): void {
  const { type, ...facts } = news;
  if (type === "problem") log.warn(facts, news.message);
  else if (type === "waiting") log.warn(facts, type);
  else log.info(facts, type);
}

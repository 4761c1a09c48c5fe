import { readdirSync, readFileSync } from "node:fs";

/** Processes that a tool may leave, identified by the duration of their sleep, which no other test file uses. */
const FIRST = 1_000_000 + process.pid * 10;
const SLEEP_SECONDS = { F: FIRST, b: FIRST + 1, n: FIRST + 2, s: FIRST + 3, t: FIRST + 4, e: FIRST + 5 };

export const TREE_LEGEND =
  "F foreground, b background, n nohup, s setsid, t ignores TERM, e env -i double fork";

/** A command that counts as the foreground process of the tree. */
export const FOREGROUND_SLEEP = `env sleep ${SLEEP_SECONDS.F}`;

const BACKGROUND_PROCESSES = [
  `env sleep ${SLEEP_SECONDS.b} >/dev/null 2>&1 &`,
  `nohup sleep ${SLEEP_SECONDS.n} >/dev/null 2>&1 &`,
  `setsid sleep ${SLEEP_SECONDS.s} >/dev/null 2>&1 &`,
  `sh -c 'trap "" TERM; exec sleep ${SLEEP_SECONDS.t}' >/dev/null 2>&1 &`,
  `env -i /bin/sh -c 'setsid sh -c "sleep ${SLEEP_SECONDS.e} >/dev/null 2>&1 &"'`,
].join("\n");

/** Shell command that starts all of them and waits in the foreground. */
export const STUBBORN_TREE = `${BACKGROUND_PROCESSES}\n${FOREGROUND_SLEEP}`;
/** The same, but the foreground command ends. */
export const STUBBORN_TREE_THEN_EXIT = `${BACKGROUND_PROCESSES}\ntrue`;
/** The same processes again, which `livingParts` does not count. */
export const OTHER_STUBBORN_TREE = STUBBORN_TREE.replaceAll(/sleep (\d+)/g, "sleep 9$1");

/** The letters of the live ones. */
export function livingParts(): string {
  const commands = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "latin1");
      } catch {
        return "";
      }
    });
  return Object.entries(SLEEP_SECONDS)
    .filter(([, seconds]) => commands.includes(`sleep\0${seconds}\0`))
    .map(([letter]) => letter)
    .join("");
}

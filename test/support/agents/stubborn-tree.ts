import { readdirSync, readFileSync } from "node:fs";

/** Processes that a tool may leave, identified by the duration of their sleep. */
const SLEEP_SECONDS = { F: 3106, b: 3101, n: 3102, s: 3103, t: 3104, e: 3105 } as const;

export const TREE_LEGEND =
  "F foreground, b background, n nohup, s setsid, t ignores TERM, e env -i double fork";

/** Shell command that starts all of them and waits in the foreground. */
export const STUBBORN_TREE = [
  `sleep ${SLEEP_SECONDS.b} >/dev/null 2>&1 &`,
  `nohup sleep ${SLEEP_SECONDS.n} >/dev/null 2>&1 &`,
  `setsid sleep ${SLEEP_SECONDS.s} >/dev/null 2>&1 &`,
  `sh -c 'trap "" TERM; exec sleep ${SLEEP_SECONDS.t}' >/dev/null 2>&1 &`,
  `env -i /bin/sh -c 'setsid sh -c "sleep ${SLEEP_SECONDS.e} >/dev/null 2>&1 &"'`,
  `sleep ${SLEEP_SECONDS.F}`,
].join("\n");

/** The same, but the foreground command ends. */
export const STUBBORN_TREE_THEN_EXIT = STUBBORN_TREE.replace(`\nsleep ${SLEEP_SECONDS.F}`, "\ntrue");

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

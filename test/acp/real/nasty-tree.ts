import { readdirSync, readFileSync } from "node:fs";

/** What a tool may leave behind, each told by how long it would sleep. */
const PARTS = { F: 3106, b: 3101, n: 3102, s: 3103, t: 3104, e: 3105 } as const;

export const LEGEND = "F foreground, b background, n nohup, s setsid, t ignores TERM, e env -i double fork";

/** For one shell: all of them, and then it waits in the foreground. */
export const NASTY = [
  `sleep ${PARTS.b} >/dev/null 2>&1 &`,
  `nohup sleep ${PARTS.n} >/dev/null 2>&1 &`,
  `setsid sleep ${PARTS.s} >/dev/null 2>&1 &`,
  `sh -c 'trap "" TERM; exec sleep ${PARTS.t}' >/dev/null 2>&1 &`,
  `env -i /bin/sh -c 'setsid sh -c "sleep ${PARTS.e} >/dev/null 2>&1 &"'`,
  `sleep ${PARTS.F}`,
].join("\n");

/** The same, but the foreground ends. */
export const NASTY_THEN_DONE = NASTY.replace(`\nsleep ${PARTS.F}`, "\ntrue");

/** The letters of what lives. */
export function living(): string {
  const commands = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "latin1");
      } catch {
        return "";
      }
    });
  return Object.entries(PARTS)
    .filter(([, seconds]) => commands.includes(`sleep\0${seconds}\0`))
    .map(([letter]) => letter)
    .join("");
}

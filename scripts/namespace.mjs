// A PID namespace for programs that start and kill processes: /proc then shows every process that outlives them.

import { spawnSync } from "node:child_process";

/** The strongest isolation this machine allows; `unshare` is null where it allows none. */
export function findNamespace() {
  // unshare ignores SIGTERM: without setpriv it would outlive a caller that is killed.
  const isolate = "setpriv --pdeathsig KILL unshare --pid --fork --mount-proc --kill-child".split(" ");
  const candidates =
    process.getuid?.() === 0
      ? [{ name: "root", unshare: isolate }]
      : [{ name: "user", unshare: [...isolate, "--user", "--map-root-user"] }];
  for (const candidate of candidates) {
    const [command, ...rest] = candidate.unshare;
    if (process.platform === "linux" && spawnSync(command, [...rest, "true"]).status === 0) return candidate;
  }
  return { name: "none", unshare: null };
}

/** The words that start a command in the namespace. A shell is PID 1, because it reaps orphans and Node does not. */
export function commandInNamespace({ unshare }, words) {
  // The shell must not exec its last command.
  return unshare === null ? words : [...unshare, "sh", "-c", '"$@"; exit $?', "sh", ...words];
}

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { listProcesses } from "../support/processes.mjs";

const script = `nohup "$@" >"$0.out" 2>&1 & wait $!; echo $? >"$0.code"`;

/** A shell that starts the command with nohup and waits for it, as scripts do. Its process group is what is stopped. */
export async function open({ directory, graceMs }) {
  let jobs = 0;
  const start = (argv) => {
    const path = `${directory}/job-${jobs++}`;
    const shell = spawn("/bin/sh", ["-c", script, path, ...argv], { stdio: "ignore", detached: true });
    return { path, pid: shell.pid, ended: new Promise((resolve) => shell.on("close", resolve)) };
  };
  const signal = (pid, name) => {
    try {
      process.kill(-pid, name);
      return true;
    } catch {
      return false; // Nothing is in the group.
    }
  };
  const exists = ({ pid }) => listProcesses().some((each) => each.pid === pid);
  return {
    killed: "shell",
    submit: async (argv) => {
      const { path, ended } = start(argv);
      await ended;
      return Number(readFileSync(`${path}.code`, "utf8"));
    },
    start: async (argv) => start(argv),
    startMany: async (count, argv) => {
      for (let n = 0; n < count; n++) start(argv);
    },
    stop: async ({ pid, ended }) => {
      if (!signal(pid, "SIGTERM")) return;
      await Promise.race([ended, sleep(graceMs)]);
      signal(pid, "SIGKILL");
    },
    managers: (job) => (job === undefined || !exists(job) ? [] : [job.pid]),
    restart: async () => {},
    output: async ({ path }) => readFileSync(`${path}.out`, "utf8"),
    exitCode: async ({ path }) =>
      existsSync(`${path}.code`) ? Number(readFileSync(`${path}.code`, "utf8")) : null,
    close: async () => {},
  };
}

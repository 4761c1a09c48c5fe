import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import { listProcesses } from "../support/processes.mjs";
import { unpackNpm } from "../support/programs.mjs";

/** pm2's programming interface, with its daemon. */
export async function open({ directory, prefix, graceMs }) {
  const installed = await unpackNpm(prefix, "pm2", "7.0.4");
  Object.assign(process.env, { PM2_HOME: directory, PM2_DISABLE_VERSION_CHECK: "true", PM2_SILENT: "true" });
  const pm2 = createRequire(import.meta.url)(installed);
  const call = (name, ...words) => promisify(pm2[name].bind(pm2))(...words);
  await call("connect");
  const bus = await call("launchBus");
  const ended = new Map();
  bus.on("process:event", ({ event, process: { name } }) => event === "exit" && ended.get(name)?.());
  let jobs = 0;
  const options = (argv) => ({
    name: `job-${jobs++}`,
    script: argv[0],
    args: argv.slice(1),
    interpreter: "none",
    autorestart: false,
    kill_timeout: graceMs,
  });
  const start = async (argv) => {
    const job = options(argv);
    await call("start", job);
    return job.name;
  };
  const describe = async (name) => (await call("describe", name))[0]?.pm2_env;
  return {
    killed: "daemon",
    submit: async (argv) => {
      const job = options(argv);
      const end = new Promise((resolve) => ended.set(job.name, resolve));
      await call("start", job);
      await end;
      return (await describe(job.name)).exit_code;
    },
    start,
    startMany: async (count, argv) => {
      await call("start", { apps: Array.from({ length: count }, () => options(argv)) });
    },
    stop: (name) => call("stop", name),
    managers: () =>
      listProcesses()
        .filter(({ argv }) => argv[0].includes("God Daemon"))
        .map(({ pid }) => pid),
    restart: async () => {
      pm2.disconnect();
      await call("connect");
    },
    output: async (name) => {
      const path = `${directory}/logs/${name}-out.log`;
      return existsSync(path) ? readFileSync(path, "utf8") : null;
    },
    exitCode: async (name) => (await describe(name))?.exit_code ?? null,
    close: () => call("killDaemon"),
  };
}

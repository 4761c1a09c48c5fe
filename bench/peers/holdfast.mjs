import { fileURLToPath } from "node:url";
import { listProcesses, execute, succeed, until } from "../support/processes.mjs";

const main = fileURLToPath(new URL("../../dist/bundle/main.cjs", import.meta.url));

/** The native command, through a gateway. */
export async function open({ directory, graceMs }) {
  const env = { ...process.env, HOLDFAST_HOME: `${directory}/home` };
  const holdfast = `${env.HOLDFAST_HOME}/native/bin/holdfast`;
  await succeed([process.execPath, main, "shellenv"], { env });
  await succeed([holdfast, "gateway", "start"], { env });
  const json = async (...words) => JSON.parse(await succeed([holdfast, ...words, "--json"], { env }));
  const start = async (argv) => (await succeed([holdfast, "run", "--detach", "--", ...argv], { env })).trim();
  return {
    killed: "gateway",
    submit: async (argv) => (await execute([holdfast, "run", "--", ...argv], { env })).code,
    start,
    startMany: async (count, argv) => {
      for (let n = 0; n < count; n++) await start(argv);
    },
    stop: (run) => execute([holdfast, "stop", run, "--grace", `${graceMs}ms`], { env }),
    managers: () =>
      listProcesses()
        .filter(({ argv }) => argv.includes("gateway") && argv.includes("run"))
        .map(({ pid }) => pid),
    restart: () => succeed([holdfast, "gateway", "start"], { env }),
    output: (run) => succeed([holdfast, "logs", run], { env }),
    exitCode: (run) => until(async () => (await json("inspect", run)).exit?.code ?? null, 50),
    close: () => execute([holdfast, "gateway", "stop", "--runs", "terminate"], { env }),
  };
}

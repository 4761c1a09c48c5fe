import { readFileSync } from "node:fs";
import { execute, listProcesses, succeed } from "../support/processes.mjs";
import { unpackDebian } from "../support/programs.mjs";

/** `tsp <command>` and `tsp -w`. */
export async function open({ directory, prefix }) {
  const tsp = `${await unpackDebian(prefix, ["task-spooler"])}/usr/bin/tsp`;
  const env = { ...process.env, TMPDIR: directory, TS_SOCKET: `${directory}/socket` };
  // So many at the same time.
  await succeed([tsp, "-S", "100"], { env });
  const start = async (argv) => (await succeed([tsp, ...argv], { env })).trim();
  const wait = async (job) => (await execute([tsp, "-w", job], { env })).code;
  // The file of the output stays when the server that names it is gone.
  const files = new Map();
  return {
    killed: "server",
    submit: async (argv) => wait(await start(argv)),
    start,
    startMany: async (count, argv) => {
      for (let n = 0; n < count; n++) await start(argv);
    },
    stop: async (job) => {
      await succeed([tsp, "-k", job], { env });
      await wait(job);
    },
    // The server is the process without arguments besides its name: the first of all.
    managers: () =>
      listProcesses()
        .filter(({ argv }) => argv[0] === tsp && argv.includes("-S"))
        .map(({ pid }) => pid),
    restart: async () => void (await execute([tsp], { env })),
    output: async (job) => {
      if (!files.has(job)) files.set(job, (await succeed([tsp, "-o", job], { env })).trim());
      return readFileSync(files.get(job), "utf8");
    },
    exitCode: async (job) => {
      const line = (await execute([tsp], { env })).stdout
        .split("\n")
        .find((each) => each.startsWith(`${job} `));
      const code = /finished\s+\S+\s+(\d+)/.exec(line ?? "")?.[1];
      return code === undefined ? null : Number(code);
    },
    close: () => execute([tsp, "-K"], { env }),
  };
}

import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { listProcesses, until } from "../support/processes.mjs";
import { unpackDebian } from "../support/programs.mjs";

const PROGRAMS = 200;

/** Programs of one group that each execute a file, over supervisord's XML-RPC interface. */
export async function open({ directory, prefix, graceMs }) {
  if (!existsSync("/usr/bin/python3")) throw new Error("Debian's python3 is missing");
  const root = await unpackDebian(prefix, ["supervisor", "python3-pkg-resources"]);
  const socketPath = `${directory}/socket`;
  writeFileSync(`${directory}/conf`, configuration(directory, graceMs));
  const env = { ...process.env, PYTHONPATH: `${root}/usr/lib/python3/dist-packages` };
  const startServer = async () => {
    const words = [`${root}/usr/bin/supervisord`, "-n", "-c", `${directory}/conf`];
    const server = spawn("/usr/bin/python3", words, { env, stdio: "ignore", detached: true });
    server.unref();
    await until(async () => (await rpc("supervisor.getState").catch(() => null)) !== null, 20);
  };
  const agent = new Agent({ keepAlive: true });
  const rpc = async (method, ...values) => {
    const body = `<?xml version="1.0"?><methodCall><methodName>${method}</methodName><params>${values
      .map(
        (value) =>
          `<param><value>${typeof value === "boolean" ? `<boolean>${Number(value)}</boolean>` : `<string>${value}</string>`}</value></param>`,
      )
      .join("")}</params></methodCall>`;
    const answer = await new Promise((resolve, reject) => {
      const asking = request({ socketPath, path: "/RPC2", method: "POST", agent }, resolve);
      asking.on("error", reject);
      asking.setHeader("content-type", "text/xml");
      asking.end(body);
    });
    const content = await text(answer);
    if (content.includes("<fault>")) throw new Error(`${method}: ${content}`);
    return content;
  };
  const member = (content, name) =>
    new RegExp(`<name>${name}</name>\\s*<value><\\w+>([^<]*)<`).exec(content)?.[1];
  const exitCode = async (job) => {
    const info = await rpc("supervisor.getProcessInfo", job);
    return member(info, "statename") === "EXITED" ? Number(member(info, "exitstatus")) : null;
  };
  await startServer();
  // The programs from `first` on are used again and again.
  let [first, next] = [0, 0];
  const start = async (argv) => {
    const at = next;
    next = at + 1 < PROGRAMS ? at + 1 : first;
    writeFileSync(`${directory}/command-${at}`, `exec ${argv.map((word) => `'${word}'`).join(" ")}\n`);
    await rpc("supervisor.startProcess", `job:${at}`, false);
    return `job:${at}`;
  };
  return {
    killed: "supervisord",
    submit: async (argv) => {
      const job = await start(argv);
      return until(() => exitCode(job));
    },
    start,
    startMany: async (count, argv) => {
      for (let n = 0; n < count; n++) await start(argv);
      first = next;
    },
    stop: (job) => rpc("supervisor.stopProcess", job),
    managers: () =>
      listProcesses()
        .filter(({ argv }) => argv.some((word) => word.endsWith("/supervisord")))
        .map(({ pid }) => pid),
    restart: startServer,
    output: async (job) => readFileSync(`${directory}/out-${job.split(":")[1]}`, "utf8"),
    exitCode,
    close: async () => {
      agent.destroy();
    },
  };
}

function configuration(directory, graceMs) {
  return `[unix_http_server]
file=${directory}/socket
[supervisord]
logfile=${directory}/log
pidfile=${directory}/pid
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[program:job]
command=/bin/sh ${directory}/command-%(process_num)d
process_name=%(process_num)d
numprocs=${PROGRAMS}
autostart=false
autorestart=false
startsecs=0
stopwaitsecs=${graceMs / 1_000}
stopasgroup=true
killasgroup=true
stdout_logfile=${directory}/out-%(process_num)d
stderr_logfile=NONE
`;
}

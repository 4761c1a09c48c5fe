import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { execute, listProcesses, succeed, until } from "../support/processes.mjs";
import { unpackDebian } from "../support/programs.mjs";

/** runsv pauses for a second after the end of a service. */
const POOL = 64;

/** Service directories made beforehand, `sv once`, and a `finish` script that writes the exit code. */
export async function open({ directory, prefix, graceMs }) {
  const root = await unpackDebian(prefix, ["runit"]);
  const env = { ...process.env, PATH: `${root}/usr/bin:${root}/sbin:${process.env.PATH}` };
  const services = `${directory}/services`;
  mkdirSync(services);
  const startScan = () =>
    spawn("runsvdir", ["-P", services], { env, stdio: "ignore", detached: true }).unref();
  startScan();
  let made = 0;
  const free = [];
  const make = () => {
    const path = `${services}/${made++}`;
    mkdirSync(path);
    const write = (name, content) => {
      writeFileSync(`${path}/${name}`, content);
      chmodSync(`${path}/${name}`, 0o755);
    };
    write("run", "#!/bin/sh\nexec 2>&1 >output\n. ./command\n");
    write("finish", "#!/bin/sh\necho $1 >code.new && mv code.new code\n");
    write("down", "");
    return path;
  };
  // runsvdir looks for new directories every five seconds.
  const taken = (path) => until(() => existsSync(`${path}/supervise/ok`), 50);
  const isDown = (path) => readFileSync(`${path}/supervise/stat`, "utf8").startsWith("down");
  const take = async () => {
    if (made < POOL) free.push(...Array.from({ length: POOL }, make));
    const path = free.shift() ?? make();
    await taken(path);
    await until(() => isDown(path));
    return path;
  };
  const startIn = async (path, argv) => {
    rmSync(`${path}/code`, { force: true });
    writeFileSync(`${path}/command`, `exec ${argv.map((word) => `'${word}'`).join(" ")}\n`);
    await succeed(["sv", "once", path], { env });
    return path;
  };
  const start = async (argv) => startIn(await take(), argv);
  const exitCode = async (path) =>
    existsSync(`${path}/code`) ? Number(readFileSync(`${path}/code`, "utf8")) : null;
  return {
    killed: "runsvdir",
    submit: async (argv) => {
      const path = await start(argv);
      const code = await until(() => exitCode(path));
      free.push(path);
      return code;
    },
    start,
    startMany: async (count, argv) => {
      const paths = Array.from({ length: count }, make);
      for (const path of paths) await taken(path);
      for (const path of paths) await startIn(path, argv);
    },
    stop: (path) => execute(["sv", "-w", String(graceMs / 1_000), "force-stop", path], { env }),
    managers: () =>
      listProcesses()
        .filter(({ argv }) => argv[0] === "runsvdir")
        .map(({ pid }) => pid),
    restart: async () => startScan(),
    output: async (path) => readFileSync(`${path}/output`, "utf8"),
    exitCode,
    close: async () => {},
  };
}

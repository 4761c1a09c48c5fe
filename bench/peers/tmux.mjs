import { existsSync, readFileSync } from "node:fs";
import { execute, listProcesses, succeed } from "../support/processes.mjs";
import { unpackDebian } from "../support/programs.mjs";

/** A session for each command, with a shell that writes the exit code into a file and signals `tmux wait-for`. */
export async function open({ directory, prefix }) {
  const packages = ["tmux", "libevent-core-2.1-7", "libutempter0", "libtinfo6", "ncurses-base"];
  const root = await unpackDebian(prefix, packages);
  const env = {
    ...process.env,
    TERM: "xterm",
    SHELL: "/bin/sh",
    TERMINFO_DIRS: `${root}/lib/terminfo:/lib/terminfo`,
    LD_LIBRARY_PATH: `${root}/usr/lib/x86_64-linux-gnu:${root}/lib/x86_64-linux-gnu`,
  };
  const tmux = (...words) => [
    `${root}/usr/bin/tmux`,
    "-S",
    `${directory}/socket`,
    "-f",
    "/dev/null",
    ...words,
  ];
  const quoted = (word) => `'${word.replaceAll("'", `'\\''`)}'`;
  let sessions = 0;
  // A server without a session ends.
  await succeed(tmux("new-session", "-d", "-s", "first", "exec sleep 1000000"), { env });
  const start = async (argv) => {
    const name = `job-${sessions++}`;
    const shown = argv.map(quoted).join(" ");
    const report = `echo $? >${directory}/${name}.code; ${tmux("wait-for", "-S", name).map(quoted).join(" ")}`;
    await succeed(tmux("new-session", "-d", "-s", name, `${shown}; ${report}`), { env });
    return name;
  };
  const exitCode = async (name) => {
    const path = `${directory}/${name}.code`;
    return existsSync(path) ? Number(readFileSync(path, "utf8")) : null;
  };
  return {
    killed: "server",
    submit: async (argv) => {
      const name = await start(argv);
      await succeed(tmux("wait-for", name), { env });
      return exitCode(name);
    },
    start,
    startMany: async (count, argv) => {
      for (let n = 0; n < count; n++)
        await succeed(tmux("new-session", "-d", `exec ${argv.map(quoted).join(" ")}`), { env });
    },
    stop: async (name) => void (await execute(tmux("kill-session", "-t", name), { env })),
    managers: () =>
      listProcesses()
        .filter(({ argv }) => argv[0].endsWith("/tmux") && argv.includes("first"))
        .map(({ pid }) => pid),
    restart: async () => {},
    output: async (name) => {
      const { code, stdout } = await execute(tmux("capture-pane", "-p", "-S", "-", "-t", name), { env });
      return code === 0 ? stdout : null;
    },
    exitCode,
    close: () => execute(tmux("kill-server"), { env }),
  };
}

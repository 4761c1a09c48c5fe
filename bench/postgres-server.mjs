import { spawn, execFileSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * A server with default settings except the socket: commits are on disk before they are answered. `stop` disposes of
 * it.
 */
export async function startPostgres(settings = {}) {
  const directory = await mkdtemp(join(tmpdir(), "hf-bench-"));
  const home = "/usr/lib/postgresql";
  const [version] = readdirSync(home).toSorted((a, b) => b - a);
  const bin = join(home, version, "bin");
  const identity = process.getuid() === 0 ? { uid: userId("-u"), gid: userId("-g") } : {};
  if (identity.uid !== undefined) await chown(directory, identity.uid, identity.gid);
  const data = join(directory, "data");
  const options = { ...identity, cwd: directory, stdio: ["ignore", "ignore", "pipe"] };
  const initdb = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"];
  execFileSync(join(bin, "initdb"), initdb, options);
  const given = { listen_addresses: "", unix_socket_directories: directory, ...settings };
  const flags = Object.entries(given).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const child = spawn(join(bin, "postgres"), ["-D", data, ...flags], options);
  const ended = once(child, "close");
  let log = "";
  await new Promise((resolve, reject) => {
    child.stderr.on("data", (text) => {
      log += text;
      if (log.includes("ready to accept connections")) resolve();
    });
    void ended.then(() => reject(new Error(log)));
  });
  return {
    cpuMs: () => cpuMs(child.pid),
    url: `postgres://postgres@localhost/postgres?host=${directory}`,
    async stop() {
      child.kill("SIGINT");
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

function userId(flag) {
  return Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" }));
}

/** CPU time of the server and all its processes, including ended ones. */
function cpuMs(pid) {
  const stats = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const text = readFileSync(`/proc/${name}/stat`, "latin1");
        return [
          [
            Number(name),
            text
              .slice(text.lastIndexOf(")") + 2)
              .split(" ")
              .map(Number),
          ],
        ];
      } catch {
        return [];
      }
    });
  const ticks = stats.reduce((sum, [at, fields]) => {
    const [, parent] = fields;
    const [user, system, childUser, childSystem] = fields.slice(11, 15);
    if (at === pid) return sum + user + system + childUser + childSystem;
    return parent === pid ? sum + user + system : sum;
  }, 0);
  return ticks * 10;
}

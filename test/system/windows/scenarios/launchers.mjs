// Launchers, sockets, and modes that answer questions.
import { spawn } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { isAlive, Launcher, Link, until } from "./client.mjs";
import { ending, program, shell } from "./commands-to-run.mjs";

/** The answers of a mode of the anchor to questions on its input. */
async function ask(words, lines) {
  const child = spawn(process.env.HOLDFAST_ANCHOR, words, { stdio: ["pipe", "pipe", "ignore"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part) => (text += part));
  child.stdin.end(lines.map((line) => `${line}\n`).join(""));
  await new Promise((resolve) => child.on("close", resolve));
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

export const launchers = {
  async deletedSocket() {
    const launcher = await Launcher.start();
    const link = await launcher.run("run_socket", program("setInterval(() => {}, 1000)"));
    const socket = join(launcher.runDirectory("run_socket"), "sock");
    rmSync(socket);
    await until(() => existsSync(socket), "the anchor has created its socket again");
    const observer = await launcher.attach("run_socket", 0);
    observer.close();
    link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: 0 });
    const end = ending(await link.receive("exited"));
    launcher.holding.close();
    return { ...end, observed: observer.welcome.phase };
  },

  async manyRuns() {
    const launcher = await Launcher.start();
    const ends = await Promise.all(
      Array.from({ length: 12 }, async (_, n) => {
        const link = await launcher.run(`run_${n}`, shell(`echo ${n}& exit ${n}`), { verbatim: true });
        const { leader } = ending(await link.receive("exited"));
        return leader.code === n && launcher.output(`run_${n}`).toString() === `${n}\r\n`;
      }),
    );
    launcher.holding.close();
    return { right: ends.filter(Boolean).length };
  },

  /** A client that sends half a frame and one that sends nothing do not disturb others. */
  async silentClients() {
    const launcher = await Launcher.start();
    const path = join(launcher.directory, "launcher.sock");
    const silent = await Link.open(path);
    const partial = await Link.open(path);
    partial.socket.write(Buffer.from([1, 2]));
    const link = await launcher.run("run_b", shell("exit 3"), { verbatim: true });
    const { leader } = ending(await link.receive("exited"));
    silent.close();
    partial.close();
    launcher.holding.close();
    return { leader };
  },

  /** The launcher and its anchors leave when there is nothing to do. */
  async launcherLeaves() {
    const launcher = await Launcher.start();
    const pid = launcher.holding.launcher.anchorPid;
    const link = await launcher.run("run_last", shell("exit 0"), { verbatim: true });
    await link.receive("exited");
    launcher.holding.close();
    link.close();
    await until(() => !isAlive(pid) && !isAlive(link.welcome.anchorPid), "both have left");
    return { socket: existsSync(join(launcher.directory, "launcher.sock")) };
  },

  async inspect() {
    const port = await new Promise((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => resolve(server.address().port));
      server.unref();
    });
    const launcher = await Launcher.start();
    const link = await launcher.run("run_seen", [...program("setInterval(() => {}, 1000)"), "a b"]);
    const { rootPid, rootStart, rootUnique, cgroup, cgroupInode, anchorPid } = link.welcome;
    const answers = await ask(
      ["inspect"],
      [
        `${rootPid} ${rootStart} ${rootUnique}`,
        `${rootPid} ${rootStart} 1`,
        "999999",
        `port ${port}`,
        `members ${cgroupInode} ${cgroup}`,
        `cgroup ${cgroupInode} ${cgroup}`,
      ],
    );
    const [seen, other, none, listener, members, state] = answers;
    link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: 0 });
    await link.receive("exited");
    const after = await until(async () => {
      const [now] = await ask(["inspect"], [`cgroup ${cgroupInode} ${cgroup}`]);
      return now === "gone" && now;
    }, "the job is gone");
    launcher.holding.close();
    return {
      seen: {
        matches: seen.matches,
        ppid: seen.ppid === anchorPid,
        argv: seen.argv,
        runId: seen.runId,
        command: seen.command,
      },
      other: other.matches,
      none,
      listener: { open: listener.open, holder: listener.holders.some(({ pid }) => pid === process.pid) },
      members: members?.map(({ pid }) => pid === rootPid) ?? null,
      state,
      after,
    };
  },

  async limits() {
    return { limits: await ask(["limits"], []) };
  },
};

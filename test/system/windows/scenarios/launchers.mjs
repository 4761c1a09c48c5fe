// Launchers, sockets, and modes that answer questions.
import { spawn } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { ask, isAlive, Launcher, Link, pipeName, until } from "./client.mjs";
import { ending, program, shell, temporary, treeProgram } from "./commands-to-run.mjs";

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

  /** A client that sends half a challenge, or half a frame, and one that sends nothing do not disturb others. */
  async silentClients() {
    const launcher = await Launcher.start();
    const path = join(launcher.directory, "launcher.sock");
    const silent = await Link.open(path);
    const partial = await Link.open(path);
    partial.socket.write(Buffer.from([1, 2]));
    const unproven = connect(pipeName(path));
    unproven.on("error", () => {}).write(Buffer.alloc(5));
    const link = await launcher.run("run_b", shell("exit 3"), { verbatim: true });
    const { leader } = ending(await link.receive("exited"));
    silent.close();
    unproven.destroy();
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
        `members 1 ${cgroup}`,
        `cgroup 1 ${cgroup}`,
        `cgroup ${cgroupInode} Global\\holdfast-`,
      ],
    );
    const [seen, other, none, listener, members, state, ...notOfRecord] = answers;
    const [anchor] = await ask(["inspect"], [String(anchorPid)]);
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
      belowAnchor: anchor.descendants.map(({ pid, command }) => pid === rootPid || command),
      state,
      notOfRecord,
      after,
    };
  },

  /** Exit codes of `tree private`. A pipe of Node is for comparison. */
  async access() {
    const server = createServer(() => {});
    const ofNode = pipeName(join(temporary(), "node"));
    await new Promise((resolve) => server.listen(ofNode, resolve));
    server.unref();
    const launcher = await Launcher.start();
    const link = await launcher.run("run_access", program("setInterval(() => {}, 1000)"));
    const names = {
      launcher: pipeName(join(launcher.directory, "launcher.sock")),
      anchor: pipeName(join(launcher.runDirectory("run_access"), "sock")),
      job: link.welcome.cgroup,
      ofNode,
    };
    const codes = {};
    for (const [what, name] of Object.entries(names)) {
      const child = spawn(treeProgram, ["private", name], { stdio: "ignore" });
      codes[what] = await new Promise((resolve) => child.on("exit", resolve));
    }
    link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: 0 });
    await link.receive("exited");
    launcher.holding.close();
    return codes;
  },

  async limits() {
    return { limits: await ask(["limits"], []) };
  },
};

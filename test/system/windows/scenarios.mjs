// What an anchor does on Windows. Runs in node.exe: `node scenarios.mjs NAME`; prints what it saw as one line of JSON.
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isAlive, Launcher, Link, until } from "./client.mjs";

const ROLES = ["leader", "detached", "breakaway", "grandchild", "consoleless", "ignoring", "background"];
const { TREE_PROGRAM: treeProgram = "", SystemRoot: systemRoot = "C:\\windows" } = process.env;
const cmd = join(systemRoot, "system32", "cmd.exe");
const node = process.execPath;
const self = fileURLToPath(import.meta.url);

const shell = (line) => [cmd, "/d", "/s", "/c", `"${line}"`];
const program = (source) => [node, "-e", source];

function temporary() {
  return mkdtempSync(join(tmpdir(), "hf-tree-"));
}

/** Starts the tree as a run, and a process with the command line of one of its members outside it. */
async function withTree(act, change = {}, words = []) {
  const launcher = await Launcher.start();
  const directory = temporary();
  const outside = spawn(treeProgram, ["ignoring", directory], { stdio: "ignore" });
  await until(() => existsSync(join(directory, "ignoring")), "the bystander has started");
  rmSync(join(directory, "ignoring"));
  const link = await launcher.run("run_tree", [treeProgram, "leader", directory, ...words], { graceMs: 300, ...change });
  const pids = await treePids(directory);
  const result = await act({ launcher, link, pids, directory });
  const left = ROLES.filter((role) => isAlive(pids[role]));
  const bystander = isAlive(outside.pid) && outside.exitCode === null;
  outside.kill("SIGKILL");
  launcher.holding.close();
  link.close();
  return { ...result, left, bystander, roles: Object.keys(pids).length };
}

async function treePids(directory) {
  await until(() => ROLES.every((role) => existsSync(join(directory, role))), `each of ${ROLES.join()} has started`);
  return Object.fromEntries(ROLES.map((role) => [role, Number(readFileSync(join(directory, role), "utf8"))]));
}

async function gone(pids) {
  await until(() => ROLES.every((role) => !isAlive(pids[role])), "the tree is gone");
}

function inJob(may, state) {
  return spawn(treeProgram, ["caller", may, `"${node}" "${self}" asGateway "${state}"`], { stdio: "ignore" });
}

/** Ends the process that `start` returns when its run is running, and takes the run over. */
async function survive(start) {
  const directory = temporary();
  const state = join(directory, "state.json");
  const gateway = start(state);
  const known = await until(() => existsSync(state) && JSON.parse(readFileSync(state, "utf8")), "the gateway has a run", 40_000);
  gateway.kill("SIGKILL");
  await new Promise((resolve) => gateway.on("exit", resolve));
  const launcher = new Launcher(known.directory, null);
  launcher.holding = await launcher.hold();
  const link = await launcher.attach("run_long", 2, known.key);
  const alive = isAlive(known.rootPid);
  writeFileSync(join(directory, "go"), "");
  const end = ending(await link.receive("exited"));
  launcher.holding.close();
  return { alive, ...end, output: launcher.output("run_long").toString() };
}

function ending({ json }) {
  const exit = JSON.parse(json);
  const { reason, leader, killMode, emptiness, tier, actor } = exit;
  return { reason, leader, killMode, emptiness, tier, actor, residue: exit.residue.map(({ kind }) => kind) };
}

/** Runs a command to its end. */
async function complete(args, change = {}) {
  const launcher = await Launcher.start();
  const link = await launcher.run("run_one", args, change);
  const exit = await link.receive("exited");
  launcher.holding.close();
  return { ...ending(exit), output: launcher.output("run_one"), errors: launcher.output("run_one", "stderr") };
}

const scenarios = {
  async output() {
    const { output, errors, ...end } = await complete(shell("echo hello& echo oops 1>&2& exit 7"), { verbatim: true });
    return { ...end, output: output.toString(), errors: errors.toString() };
  },

  async merged() {
    const { output, errors } = await complete(shell("echo one& echo two 1>&2& echo three"), { verbatim: true, merge: 1 });
    return { output: output.toString(), errors: errors.toString() };
  },

  async status() {
    return complete(program("process.exit(3221225477)")).then(({ leader, reason }) => ({ leader, reason }));
  },

  async statusOfShell() {
    return complete(shell("exit 3221225477"), { verbatim: true }).then(({ leader, reason }) => ({ leader, reason }));
  },

  /** More than pipes hold, so that writers wait. */
  async muchOutput() {
    const source = `const b = Buffer.alloc(65536); let n = 0;
      const next = () => { if (n === 80) return; b.fill(n++); process.stdout.write(b, next); }; next();`;
    const { output } = await complete(program(source), { outBound: 16 << 20 });
    const expected = Buffer.concat(Array.from({ length: 80 }, (_, n) => Buffer.alloc(65536, n)));
    return { bytes: output.length, exact: output.equals(expected) };
  },

  async input() {
    const launcher = await Launcher.start();
    const link = await launcher.run("run_in", program("process.stdin.pipe(process.stdout)"));
    const data = randomBytes(1 << 20);
    let sent = 0;
    let limit = link.welcome.limit;
    while (sent < data.length) {
      if (sent === limit) {
        ({ limit } = await link.receive("stdin"));
        continue;
      }
      const part = data.subarray(sent, Math.min(limit, sent + 32768, data.length));
      link.send("write", { offset: sent, data: part });
      sent += part.length;
    }
    link.send("closeStdin", { offset: sent });
    const end = ending(await link.receive("exited"));
    const hash = (bytes) => createHash("sha256").update(bytes).digest("hex");
    launcher.holding.close();
    return { ...end, same: hash(launcher.output("run_in")) === hash(data) };
  },

  async words() {
    const words = ["", " ", "a b", 'say "hi"', "back\\slash", "end\\", "end \\", 'q\\"q', '\\\\"', "tab\there", "%PATH%", "^&|<>", "ünï→𝄞", "*"];
    const { output } = await complete([...program("console.log(JSON.stringify(process.argv.slice(1)))"), "--", ...words]);
    return { words, received: JSON.parse(output.toString()) };
  },

  async environment() {
    const directory = temporary();
    const env = ["zebra=1", "Alpha=ünï", "beta==x", "PATH=C:\\nowhere", "EMPTY=", "NODE_SKIP_PLATFORM_CHECK=1"];
    const source = "console.log(JSON.stringify([process.cwd(), ['zebra','alpha','beta','PATH','EMPTY'].map((n) => process.env[n]), Boolean(process.env.SystemRoot)]))";
    const { output } = await complete(program(source), { env, cwd: directory });
    const [cwd, values, hasRoot] = JSON.parse(output.toString());
    return { cwd: cwd.toLowerCase() === directory.toLowerCase(), values, hasRoot };
  },

  async refusals() {
    const launcher = await Launcher.start();
    const attempt = async (id, args, change = {}) => {
      const error = await launcher.begin(id, args, change).then(() => null, (cause) => cause);
      const text = error?.message ?? "";
      return JSON.parse(text.slice(text.indexOf("{"))).step;
    };
    const batch = join(temporary(), "x.cmd");
    writeFileSync(batch, "echo x\r\n");
    const steps = {
      program: await attempt("run_a", ["C:\\no\\such.exe"]),
      name: await attempt("run_b", ["no-such-program"]),
      directory: await attempt("run_c", [cmd], { cwd: "C:\\no\\such" }),
      batch: await attempt("run_d", [batch]),
    };
    const left = readdirSync(join(launcher.directory, "runs"));
    launcher.holding.close();
    return { steps, left };
  },

  /** No instruction runs before GO, and none at all if GO does not come. */
  async gate() {
    const launcher = await Launcher.start();
    const directory = temporary();
    const link = await launcher.begin("run_gate", [treeProgram, "leader", directory]);
    const waits = isAlive(link.welcome.rootPid);
    link.close();
    await until(() => !isAlive(link.welcome.rootPid), "the process at the gate is gone");
    const exit = await until(() => launcher.runFile("run_gate", "exit.json"), "the run has ended");
    launcher.holding.close();
    return { waits, ran: readdirSync(directory), executed: exit.executed };
  },

  async stop() {
    return withTree(async ({ link }) => {
      link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null });
      await link.receive("stopping");
      return ending(await link.receive("exited"));
    });
  },

  async timeout() {
    return withTree(async ({ link }) => ending(await link.receive("exited")), { overallMs: 6000, backstopMs: 0 });
  },

  async leaderExits() {
    return withTree(async ({ link }) => ending(await link.receive("exited")), {}, ["4000"]);
  },

  async ownerLeaves() {
    return withTree(
      async ({ launcher, link }) => {
        link.close();
        const exit = await until(() => launcher.runFile("run_tree", "exit.json"), "the run has ended");
        return ending({ json: JSON.stringify(exit) });
      },
      { ownerLossMs: 500 },
    );
  },

  async anchorDies() {
    return withTree(async ({ launcher, link, pids }) => {
      process.kill(link.welcome.anchorPid, "SIGKILL");
      await gone(pids);
      const lost = await launcher.holding.receive("anchorLost");
      const swept = await until(() => launcher.runFile("run_tree", "swept.json"), "the launcher has recorded it");
      return { lost: { runId: lost.runId, code: lost.code }, swept };
    });
  },

  async launcherDies() {
    return withTree(async ({ launcher, link, pids }) => {
      process.kill(launcher.holding.launcher.anchorPid, "SIGKILL");
      await until(() => launcher.holding.closed, "the launcher is gone");
      const alive = ROLES.filter((role) => isAlive(pids[role])).length;
      link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null });
      return { alive, ...ending(await link.receive("exited")) };
    });
  },

  /** The gateway is another process, which is killed. */
  async gatewayDies() {
    return survive((state) => spawn(node, [self, "asGateway", state], { stdio: "ignore" }));
  },

  /** The gateway is in a job, which ends when the process is killed that has its handle. */
  async callersJob() {
    return survive((state) => inJob("leave", state));
  },

  async callersJobHolds() {
    const state = join(temporary(), "state.json");
    const caller = inJob("stay", state);
    const { note } = await until(() => existsSync(state) && JSON.parse(readFileSync(state, "utf8")), "the gateway has a run", 40_000);
    caller.kill("SIGKILL");
    return { note };
  },

  async asGateway(state) {
    const launcher = await Launcher.start();
    const source = `const fs = require("fs"), go = ${JSON.stringify(join(state, "..", "go"))};
      console.log("before"); const t = setInterval(() => { if (!fs.existsSync(go)) return; clearInterval(t); console.log("after"); process.exitCode = 5; }, 50);`;
    const link = await launcher.run("run_long", program(source), { ownerLossMs: 60_000 });
    await until(() => launcher.output("run_long").length > 0, "its first output");
    const { rootPid, tierNote: note } = link.welcome;
    const known = { directory: launcher.directory, key: launcher.keys.get("run_long"), rootPid, note };
    writeFileSync(`${state}.new`, JSON.stringify(known));
    renameSync(`${state}.new`, state);
    await new Promise(() => setInterval(() => {}, 1000));
  },

  /** Every process that shares the anchor's console gets Ctrl-Break. */
  async controlBreak() {
    const source = `process.on("SIGBREAK", () => { console.log("asked"); process.exit(4); }); console.log("ready"); setInterval(() => {}, 1000);`;
    const launcher = await Launcher.start();
    const link = await launcher.run("run_break", program(source), { graceMs: 20_000 });
    await until(() => launcher.output("run_break").includes("ready"), "the command is ready");
    link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null });
    const end = ending(await link.receive("exited"));
    launcher.holding.close();
    return { ...end, output: launcher.output("run_break").toString() };
  },

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
    const answers = await ask(["inspect"], [`${rootPid} ${rootStart} ${rootUnique}`, `${rootPid} ${rootStart} 1`, "999999", `port ${port}`, `members ${cgroupInode} ${cgroup}`, `cgroup ${cgroupInode} ${cgroup}`]);
    const [seen, other, none, listener, members, state] = answers;
    link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: 0 });
    await link.receive("exited");
    const after = await until(async () => {
      const [now] = await ask(["inspect"], [`cgroup ${cgroupInode} ${cgroup}`]);
      return now === "gone" && now;
    }, "the job is gone");
    launcher.holding.close();
    return {
      seen: { matches: seen.matches, ppid: seen.ppid === anchorPid, argv: seen.argv, runId: seen.runId, command: seen.command },
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

  async processLimit() {
    const directory = temporary();
    const { output, ...end } = await complete(
      program(`const r = []; for (let i = 0; i < 6; i++) r.push(require("child_process").spawnSync(${JSON.stringify(cmd)}, ["/d", "/c", "exit 0"]).status);
        const c = []; for (let i = 0; i < 6; i++) c.push(require("child_process").spawn(process.execPath, ["-e", "setTimeout(()=>{},3000)"], {stdio: "ignore"}).pid ?? null);
        console.log(JSON.stringify(c.filter((p) => p !== null).length));`),
      { pids: 4, cwd: directory },
    );
    return { started: Number(output.toString()), ...end };
  },

  async terminal() {
    const launcher = await Launcher.start();
    const link = await launcher.run("run_pty", shell("echo hello from a terminal>CONOUT$& exit 6"), { verbatim: true, pty: 1 });
    const end = ending(await link.receive("exited"));
    launcher.holding.close();
    return { ...end, output: launcher.output("run_pty").toString() };
  },
};

async function ask(words, lines) {
  const child = spawn(process.env.HOLDFAST_ANCHOR, words, { stdio: ["pipe", "pipe", "ignore"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part) => (text += part));
  child.stdin.end(lines.map((line) => `${line}\n`).join(""));
  await new Promise((resolve) => child.on("close", resolve));
  return text.trim().split("\n").map((line) => JSON.parse(line));
}

const [name, ...words] = process.argv.slice(2);
const result = await scenarios[name](...words);
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));

// Scenarios with one command.
import { createHash, randomBytes } from "node:crypto";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive, Launcher, until } from "./client.mjs";
import { cmd, complete, ending, program, shell, temporary, treeProgram } from "./commands-to-run.mjs";

export const commands = {
  async output() {
    const { output, errors, ...end } = await complete(shell("echo hello& echo oops 1>&2& exit 7"), {
      verbatim: true,
    });
    return { ...end, output: output.toString(), errors: errors.toString() };
  },

  async merged() {
    const { output, errors } = await complete(shell("echo one& echo two 1>&2& echo three"), {
      verbatim: true,
      merge: 1,
    });
    return { output: output.toString(), errors: errors.toString() };
  },

  async status() {
    return complete(program("process.exit(3221225477)")).then(({ leader, reason }) => ({ leader, reason }));
  },

  async statusOfShell() {
    return complete(shell("exit 3221225477"), { verbatim: true }).then(({ leader, reason }) => ({
      leader,
      reason,
    }));
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
    const words = [
      "",
      " ",
      "a b",
      'say "hi"',
      "back\\slash",
      "end\\",
      "end \\",
      'q\\"q',
      '\\\\"',
      "tab\there",
      "%PATH%",
      "^&|<>",
      "ünï→𝄞",
      "*",
    ];
    const { output } = await complete([
      ...program("console.log(JSON.stringify(process.argv.slice(1)))"),
      "--",
      ...words,
    ]);
    return { words, received: JSON.parse(output.toString()) };
  },

  /** Finds out if the leader of a run ignores Ctrl-C: on a terminal, and without. */
  async interrupts() {
    const codes = [];
    for (const pty of [1, 0])
      codes.push((await complete([treeProgram, "interruptible"], { pty })).leader.code);
    return codes;
  },

  async environment() {
    const directory = temporary();
    const env = [
      "zebra=1",
      "Alpha=ünï",
      "beta==x",
      "PATH=C:\\nowhere",
      "EMPTY=",
      "NODE_SKIP_PLATFORM_CHECK=1",
    ];
    const source =
      "console.log(JSON.stringify([process.cwd(), ['zebra','alpha','beta','PATH','EMPTY'].map((n) => process.env[n]), Boolean(process.env.SystemRoot)]))";
    const { output } = await complete(program(source), { env, cwd: directory });
    const [cwd, values, hasRoot] = JSON.parse(output.toString());
    return { cwd: cwd.toLowerCase() === directory.toLowerCase(), values, hasRoot };
  },

  async refusals() {
    const launcher = await Launcher.start();
    /** The step that failed. */
    const attempt = async (id, args, change = {}) => {
      try {
        await launcher.begin(id, args, change);
        return "none";
      } catch (error) {
        return JSON.parse(error.message.slice(error.message.indexOf("{"))).step;
      }
    };
    const batch = join(temporary(), "x.cmd");
    writeFileSync(batch, "echo x\r\n");
    const steps = {
      program: await attempt("run_a", ["C:\\no\\such.exe"]),
      name: await attempt("run_b", ["no-such-program"]),
      directory: await attempt("run_c", [cmd], { cwd: "C:\\no\\such" }),
      batch: await attempt("run_d", [batch]),
      // Windows opens x.cmd for both.
      dot: await attempt("run_e", [`${batch}.`]),
      space: await attempt("run_f", [`${batch} . `]),
      // It would be looked for in the anchor's own directory, that of the system.
      relative: await attempt("run_g", [".\\cmd.exe"]),
      long: await attempt("run_h", [cmd], { cwd: `C:\\${"d\\".repeat(150)}` }),
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

  async terminal() {
    const launcher = await Launcher.start();
    const link = await launcher.run("run_pty", shell("echo hello from a terminal>CONOUT$& exit 6"), {
      verbatim: true,
      pty: 1,
    });
    const end = ending(await link.receive("exited"));
    launcher.holding.close();
    return { ...end, output: launcher.output("run_pty").toString() };
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
};

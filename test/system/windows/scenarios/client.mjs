// Starts a launcher on Windows and talks to its anchors, for programs that node.exe runs. It uses the compiled client
// code, because node.exe does not load TypeScript.
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join, win32 } from "node:path";
import { FrameDecoder } from "../../../../dist/anchor/protocol/frame.js";
import { decodeMessage, encodeMessage } from "../../../../dist/anchor/protocol/message-codec.js";
import { pipeProof } from "../../../../dist/anchor/protocol/pipe-proof.js";

const RETRY_MS = 20;
const PATIENCE_MS = 30_000;

/** Retries until `check` returns something other than null, undefined and false. */
export async function until(check, what, patienceMs = PATIENCE_MS) {
  const late = performance.now() + patienceMs;
  for (;;) {
    const found = await check();
    if (found !== null && found !== undefined && found !== false) return found;
    if (performance.now() > late) throw new Error(`not within ${patienceMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** The answers of a mode of the anchor to questions on its input. */
export async function ask(words, lines) {
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

export function pipeName(path) {
  const name = win32.resolve(path).replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return `\\\\.\\pipe\\holdfast-${createHash("sha256").update(name).digest("hex").slice(0, 32)}`;
}

/** True while the process exists. A handle that another process holds keeps an ended process visible. */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** One connection, and all messages it has received. */
export class Link {
  messages = [];
  closed = false;
  #taken = new Map();
  #waiting = new Set();

  constructor(socket) {
    this.socket = socket;
    const decoder = new FrameDecoder();
    socket.on("data", (chunk) => {
      for (const frame of decoder.push(chunk)) {
        const message = decodeMessage(frame);
        if (message !== null) this.messages.push(message);
      }
      this.#wake();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.closed = true;
      this.#wake();
    });
  }

  #wake() {
    for (const wake of this.#waiting) wake();
  }

  /** The server proves that it has written the key at the path. */
  static open(path) {
    return new Promise((resolve, reject) => {
      const proof = pipeProof(path);
      const socket = connect(pipeName(path));
      socket.once("error", reject);
      socket.write(proof.challenge);
      socket.on("data", function take(chunk) {
        const rest = proof.take(chunk);
        if (rest === null) return;
        socket.off("data", take).off("error", reject);
        resolve(new Link(socket));
        if (rest.length > 0) socket.emit("data", rest);
      });
    });
  }

  send(type, fields = {}) {
    this.socket.write(encodeMessage(type, fields));
  }

  close() {
    this.socket.destroy();
  }

  /** Awaits the next message of this type that no earlier call returned. */
  receive(type, patienceMs = PATIENCE_MS) {
    return new Promise((resolve, reject) => {
      const done = (act) => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        act();
      };
      const timer = setTimeout(
        () =>
          done(() =>
            reject(
              new Error(`no ${type} within ${patienceMs} ms; received ${JSON.stringify(this.messages)}`),
            ),
          ),
        patienceMs,
      );
      const look = () => {
        const failed = this.messages.find((each) => each.name === "failed" || each.name === "refused");
        const from = this.#taken.get(type) ?? 0;
        const at = this.messages.findIndex((each, index) => index >= from && each.name === type);
        if (at >= 0) {
          this.#taken.set(type, at + 1);
          done(() => resolve(this.messages[at]));
        } else if (failed !== undefined) {
          done(() => reject(new Error(`${failed.name}: ${JSON.stringify(failed)}`)));
        } else if (this.closed) {
          done(() => reject(new Error(`the connection was closed before ${type}`)));
        }
      };
      this.#waiting.add(look);
      look();
    });
  }
}

export class Launcher {
  constructor(directory, child) {
    this.directory = directory;
    this.child = child;
    this.pid = child?.pid ?? 0;
  }

  static async start(anchor = process.env.HOLDFAST_ANCHOR) {
    const directory = mkdtempSync(join(tmpdir(), "hf-win-"));
    const child = spawn(anchor, ["launch", "--dir", directory, "--instance", "in_win"], {
      detached: true,
      windowsHide: true,
      stdio: ["ignore", "pipe", "ignore"],
    });
    const line = await new Promise((resolve, reject) => {
      let text = "";
      child.on("error", reject);
      child.on("close", (code) => reject(new Error(`the launcher ended with ${code}: ${text}`)));
      child.stdout.on("data", (part) => {
        text += part;
        if (text.includes("\n")) resolve(text);
      });
    });
    if (!line.includes('"ready":true')) throw new Error(line);
    child.stdout.destroy();
    child.unref();
    const launcher = new Launcher(directory, child);
    launcher.ready = JSON.parse(line);
    launcher.holding = await launcher.hold();
    return launcher;
  }

  async hold() {
    const link = await Link.open(join(this.directory, "launcher.sock"));
    link.send("hold");
    link.launcher = await link.receive("launcher");
    return link;
  }

  /** Sends START and awaits WELCOME: the gate is closed. */
  async begin(runId, args, change = {}) {
    const link = await Link.open(join(this.directory, "launcher.sock"));
    this.keys ??= new Map();
    const start = startContent(runId, args, change);
    this.keys.set(runId, start.key);
    link.send("start", start);
    link.welcome = await link.receive("welcome");
    return link;
  }

  async run(runId, args, change = {}) {
    const link = await this.begin(runId, args, change);
    link.send("go");
    await link.receive("started");
    return link;
  }

  async attach(runId, epoch, key = this.keys.get(runId)) {
    const link = await Link.open(join(this.runDirectory(runId), "sock"));
    link.send("hello", { protocol: 1, runId, instanceId: "in_win", incarnation: "two", epoch, key });
    link.welcome = await link.receive("welcome");
    return link;
  }

  runDirectory(runId) {
    return join(this.directory, "runs", runId);
  }

  /** The content of a file of the run as JSON; null if it does not exist. */
  runFile(runId, name) {
    const path = join(this.runDirectory(runId), name);
    return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null;
  }

  /** All bytes of a stream. */
  output(runId, stream = "stdout") {
    const directory = this.runDirectory(runId);
    const segments = readdirSync(directory).filter((name) => name.startsWith(`${stream}.`));
    return Buffer.concat(segments.sort().map((name) => readFileSync(join(directory, name))));
  }
}

export function startContent(runId, args, change = {}) {
  const env = Object.entries(process.env).map(([name, value]) => `${name}=${value}`);
  return {
    runId,
    protocol: 1,
    instanceId: "in_win",
    incarnation: "one",
    epoch: 1,
    key: randomBytes(32).toString("hex"),
    args,
    verbatim: false,
    env: [...env, `HOLDFAST_RUN_ID=${runId}`],
    cwd: tmpdir(),
    umask: null,
    pty: 0,
    merge: 0,
    stdin: 1,
    rows: 24,
    cols: 80,
    kind: 0,
    onEscape: 0,
    graceMs: 500,
    settleMs: 50,
    drainMs: 500,
    killReportMs: 2000,
    overallMs: 0,
    noOutputMs: 0,
    ownerLossMs: 500,
    backstopMs: 500,
    outBound: 8 << 20,
    outPolicy: 0,
    errBound: 1 << 20,
    errPolicy: 0,
    memoryBytes: null,
    pids: null,
    milliCpus: null,
    scope: null,
    ...change,
  };
}

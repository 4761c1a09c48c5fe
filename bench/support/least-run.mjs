// The least that a durable run can cost: a program that keeps the promises of a run (record and identity committed before
// the command executes, an exit file, the end synced to disk before it is reported) and does nothing else.
import { execFileSync, spawn } from "node:child_process";
import { closeSync, fdatasync, openSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { DatabaseSync } from "@photostructure/sqlite";

const source = fileURLToPath(new URL("keeper.c", import.meta.url));
const syncToDisk = promisify(fdatasync);

/** Needs a C compiler, as the build of the anchor does. */
export function compileKeeper(directory) {
  const program = join(directory, "keeper");
  execFileSync(process.env.CC ?? "cc", ["-O2", "-D_GNU_SOURCE", "-o", program, source]);
  return program;
}

/** One row for each run, with the settings of Holdfast's store. */
export function openRecords(directory) {
  const path = join(directory, `least-${process.pid}.sqlite`);
  const db = new DatabaseSync(path, { timeout: 0 });
  db.exec("pragma journal_mode = wal; pragma synchronous = normal");
  db.exec("create table runs (id integer primary key, pid integer, state text, code integer)");
  const insert = db.prepare("insert into runs (pid, state) values (?, 'starting')");
  const finish = db.prepare("update runs set state = 'exited', code = ? where id = ?");
  const wal = openSync(`${path}-wal`, "r");
  return {
    begin: (pid) => insert.run(pid).lastInsertRowid,
    end: (id) => finish.run(0, id),
    sync: () => syncToDisk(wal),
    close() {
      db.close();
      closeSync(wal);
    },
  };
}

/** A process beside the runs, which has the next command's process ready. */
export class Keeper {
  #child;
  #text = "";
  #wake = () => undefined;

  /** `exitFiles`: the directory for them; null: none are written. */
  constructor(program, exitFiles) {
    this.#child = spawn(program, exitFiles === null ? [] : [exitFiles], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child.stdout.on("data", (chunk) => {
      this.#text += chunk;
      this.#wake();
    });
  }

  /** Executes /bin/true to its end. `records`: null, or those of the run. */
  async run(records, { sync = false } = {}) {
    await this.#until("\n");
    const pid = Number.parseInt(this.#text, 10);
    this.#text = "";
    const id = records?.begin(pid);
    this.#child.stdin.write("g");
    await this.#until("E");
    this.#text = this.#text.slice(this.#text.indexOf("E") + 1);
    records?.end(id);
    if (sync) await records.sync();
  }

  close() {
    this.#child.stdin.end();
  }

  async #until(mark) {
    while (!this.#text.includes(mark))
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
  }
}

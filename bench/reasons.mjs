import { rangeOfFigure } from "./goals.mjs";

/**
 * The reason that a measurement misses its goal, by its work in goals.mjs: work of Holdfast that the comparison omits.
 * Printed below the table of docs/reference/performance.md if the goal is missed. `{part | row | column | unit}` stands
 * for a measured figure, such as the least that a program with the same promises takes (bench/floor.mjs).
 */
export const reasons = {
  "spawn to exit of `/bin/true`, library, against bare spawn":
    "A program that keeps the same promises and does nothing else takes {floor | … and the end synced | ratio | ×}: {floor | command of a prepared | ratio | ×} until a process beside it reports the end of the command, and the rest for an exit file, two commits of a small row and one sync. Holdfast also checks the request, records 58 fields with their indexes and two events, proves that the tree is empty, and makes the next warm anchor on the same cores.",
  "spawn to exit of `/bin/true`, library, with 1 GB resident, against bare spawn":
    "The time is that of a run in a small process: the launcher forks, not the large process. The least durable run takes {floor | least durable run, | ratio | ×} there.",
  "exec over the API against bare spawn":
    "A server without checks that only spawns takes {floor | server without checks that spawns | ratio | ×}, and with the least durable run {floor | server without checks, the | ratio | ×}. Holdfast also checks token, rate, schema and access, and does what the library does.",
  "gateway CPU per exec":
    "A server without checks takes {floor | CPU of that server, /bare | ms | ms} to answer and spawn, and {floor | CPU of that server, /durable | ms | ms} with the least durable run. Most of the rest is the same run through the library: SQLite with a record of 58 fields takes a seventh, garbage collection a twelfth.",
  "runs per second, 5 clients over the API, against bare spawn at the same parallelism":
    "Gateway, anchors, commands and the five clients share the cores; with bare spawns there are only the commands and their caller. Five clients of a server without checks reach {floor | 5 clients of a server that spawns | ratio | ×}, and {floor | 5 clients of a server the | ratio | ×} with the least durable run.",
  "`holdfast run -- true` against `node -e 0`":
    "The native command waits for a whole durable run, until its end is committed.",
  "`holdfast run -- true` against `tsp` and `tsp -w`":
    "`tsp` keeps its list of jobs in memory, and writes no record that a crash would leave.",
  "memory that wrapping adds to an MCP server":
    "Four fifths are the native command in front of the server, nearly all of it pages of its binary; the rest is the anchor.",
  "start-up that wrapping adds to an MCP server":
    "Half is added before the server is executed: the proof of the token, and the start of a durable run. Then the gateway finishes the record of the start and prepares the next anchor, 6 ms of processor time, on the core that the threads of the server use.",
  "`gateway status` against `node -e 0`":
    "An empty file takes as long as `node -e 0`. A file that loads `node:net` and `node:crypto` and sends one request takes 1.16 times the processor time of `node -e 0` (the row `floor: one request to the gateway`), and the command 1.41 times: it also loads its own code, and asks twice, because the gateway proves that it knows the token before it gets it.",
  "`runs list` against `node -e 0`":
    "As for `gateway status`: one request alone takes 1.16 times the processor time of `node -e 0`, and the command 1.43 times.",
  "`ps` against `node -e 0`":
    "In addition to what `runs list` does, the gateway starts the anchor binary twice: for the processes of all runs, and for runs whose state directory was removed, which reads `/proc` of the whole machine.",
  "poll requests per second":
    "The gateway answers in one thread, and the client of the benchmark uses the other core. A Node server that answers the same number of bytes and does nothing else reaches {gateway | the same on kept connections: poll | its | /s}.",
  "list requests per second":
    "As for polls, and each run of the list is read from the store, checked for visibility and serialized.",
  "KILL to terminal record, 1 process":
    "Plain Node takes {floor | kill of 1 process | ms | ms} to kill a child of its own, reap it, commit one small row and sync it. Holdfast asks the anchor, which writes down who asked, identifies the processes before it kills them, proves that the tree is empty and writes the exit file.",
  "KILL to terminal record, per process of 1,000":
    "A program that kills 1,000 processes as a group, waits for their end and syncs one small row takes {floor | kill of 1000 | ms | ms} for each. Before the kill the anchor opens and identifies each process, to record how many it ended.",
  "output followed into Node against `cmd | cat`":
    "The anchor copies every byte into the spool, from which it can be read again after a crash, and Node reads it from there. `cat` copies it once.",
  "output followed into a foreground caller against `cmd | cat`":
    "The anchor copies every byte into the spool, from which it can be read again after a crash, and the command copies it from there to its caller; `cat` copies it once. A program that makes only these two copies, with files of 1 MB that are deleted, takes 1.0 to 1.2 times as long as `cat`; the anchor also checks the files, and three processes share the cores.",
  "ACP turn of one update, over the agent alone":
    "A program that only answers HTTP, relays to the agent and commits twice adds {acp | the unavoidable steps of a turn | difference | ms}. A quarter of a turn in the gateway is two commits (16 statements, 28 pages of the log), a seventh two inspections of the agent's process tree by its anchor, an eighth the request and its access checks, a ninth the agent; the rest is a dozen switches between four processes.",
  "ACP updates per second against parsing only":
    "Every update is stored before it is acknowledged; the comparison parses it and drops it. A program that parses updates and stores them in one transaction for each chunk reaches {acp | the unavoidable steps of updates | ratio | ×}. A quarter of the gateway's time is garbage collection, a quarter the transactions, a sixth parsing and its checks.",
  "tasks created and finished with durable message, SQLite":
    "A task is two transactions with six rows, and each waits for the disk's sync; 32 at a time share one.",
  "tasks created and finished with durable message, PostgreSQL":
    "A task is two transactions, each with several statements to another process, on the same cores.",
  "PostgreSQL: statements per short run":
    "Each step of a run that must survive a crash is a statement of its own.",
  "PostgreSQL: commits per short run":
    "Each statement is a transaction of its own: the record before the command executes, its end, and the wake-up of other gateways.",
  "PostgreSQL: WAL per short run": "It is the record, its events and their index entries.",
  "PostgreSQL: runs per second at 8 callers against SQLite":
    "The server's processes share the cores with the gateway, the anchors and the callers, and every commit waits for a switch to another process and back. SQLite commits inside the gateway. A run takes 1.7 to 2.1 ms of the server's processor time, and 1.6 times as much of the gateway's as with SQLite: the socket writes that wake the server, and the copy of the record on this host, which is synced at the end of a run. The rows below this one measure both.",
  "idle gateway on PostgreSQL, statements a minute":
    "Six each renew the gateway's entry, read the other gateways, look for stop requests of other hosts, and look for runs without an owner. Two look for due messages, and the rest are the checks of each minute.",
  "reconcile per record: verified alive":
    "The floor is about 25 µs: reading the 58 columns of a record (6 µs), verifying an anchor and a leader (8 µs, four system calls each), and the statements of the lease and its event in one transaction (11 µs); the row `floor` measures it. A record, a decision and a run in memory are objects that garbage collection copies: with 10,000 of them that is a third of the time.",
  "reconcile per record: ended on record":
    "The floor is about 36 µs: reading a record (6 µs), looking for its two processes (8 µs), and the statements of its end (one row of state, two events, five indexes: 22 µs in a shared transaction); the row `floor` measures it. The rest is deciding, building the rows, and a quarter of the time garbage collection.",
  "idle gateway, resident":
    "Node with nothing but a timer has 40 MB resident, and with an HTTP server and SQLite 47 MB (the rows `floor`), of which 40 MB are files that every Node process shares. 13 MB more are live heap: 4.5 MB code, 4.5 MB strings, nearly all of it the source text that V8 compiles functions from, and objects, mostly schemas and commands. The rest is the space that V8 and the allocator keep free.",
  "event-loop delay with 1,000 runs starting, p99":
    "Each turn of the event loop handles all requests and messages that have arrived, and with five callers those of several starts are among them.",
  "event-loop delay with 1,000 idle runs, p99":
    "Once every ten seconds the leases of all runs are renewed, in one statement.",
  "event-loop delay with 1,000 runs stopping, p99":
    "The ends of many runs arrive together and are committed in one transaction.",
};

/** The reason with its figures. `results`: by part, the rows of each round. */
export function reasonOf(work, results) {
  return (reasons[work] ?? "The reason is not known.").replaceAll(/\{([^}]+)\}/g, (_, place) => {
    const [part, row, column, unit] = place.split("|").map((each) => each.trim());
    return rangeOfFigure(results, part, row, column, unit) ?? "(not measured)";
  });
}

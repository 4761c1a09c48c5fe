/**
 * The reason that a measurement misses its goal, by its work in goals.mjs: work of Holdfast that the comparison omits.
 * Printed below the table of docs/reference/performance.md if the goal is missed.
 */
export const reasons = {
  "spawn to exit of `/bin/true`, library, against bare spawn":
    "The second half of a run: after the exit the anchor proves that the tree is empty and writes the exit file, and the record of the end is committed and synced to disk. The start no longer waits for another process, but the work of a warm anchor is done between the runs on the same cores, and a run takes about twice the processor time of Node that a bare spawn takes.",
  "spawn to exit of `/bin/true`, library, with 1 GB resident, against bare spawn":
    "The time is that of a run in a small process: the launcher forks, not the large process.",
  "exec over the API against bare spawn":
    "To the durable run, a request adds its parsing and checks, the answer, and four switches between the processes of caller, gateway and anchor.",
  "gateway CPU per exec":
    "Most of it is the same run through the library. A third is system calls that wake another process (anchor, launcher, the thread that syncs, the caller), SQLite takes a tenth, garbage collection a twelfth.",
  "runs per second, 5 clients over the API, against bare spawn at the same parallelism":
    "Gateway, anchors, commands and the five clients share the cores; with bare spawns there are only the commands and their caller.",
  "`holdfast run -- true` against `node -e 0`":
    "The native command waits for a whole durable run, until its end is committed.",
  "`holdfast run -- true` against `tsp` and `tsp -w`":
    "`tsp` keeps its list of jobs in memory, and writes no record that a crash would leave.",
  "memory that wrapping adds to an MCP server":
    "Four fifths are the native command in front of the server, nearly all of it pages of its binary; the rest is the anchor.",
  "start-up that wrapping adds to an MCP server":
    "It is added before the server is executed: the proof of the token, and the start of a durable run. From there to its first answer the server takes as long as alone, with the same processor time, and Holdfast waits for no timer.",
  "`gateway status` against `node -e 0`":
    "The command must start Node, load its code, `node:net` and `node:crypto`, and ask twice, because the gateway proves that it knows the token.",
  "`runs list` against `node -e 0`":
    "In addition to the start of Node, the command loads its code, `node:net` and `node:crypto`, proves the token and prints the answer.",
  "`ps` against `node -e 0`":
    "In addition to what `runs list` does, the gateway starts the anchor binary twice: for the processes of all runs, and for runs whose state directory was removed, which reads `/proc` of the whole machine.",
  "poll requests per second":
    "The gateway answers in one thread, and the client of the benchmark uses the other core. The last column of `--only gateway` compares with a Node server that answers the same number of bytes and does nothing else.",
  "list requests per second":
    "As for polls, and each run of the list is read from the store, checked for visibility and serialized.",
  "KILL to terminal record, 1 process":
    "The kernel ends the process, the anchor proves that the tree is empty and writes the exit file, and the record is committed and synced to disk before the end is reported.",
  "KILL to terminal record, per process of 1,000":
    "A program that only kills and reaps 1,000 children of its own needs 0.06 to 0.08 ms for each. Before the kill the anchor opens and identifies each process (16 system calls), to record how many it ended.",
  "output followed into Node against `cmd | cat`":
    "The anchor copies every byte into the spool, from which it can be read again after a crash, and Node reads it from there. `cat` copies it once.",
  "output followed into a foreground caller against `cmd | cat`":
    "The anchor copies every byte into the spool, from which it can be read again after a crash, and the command copies it from there to its caller; `cat` copies it once. A program that makes only these two copies, with files of 1 MB that are deleted, takes 1.0 to 1.2 times as long as `cat`; the anchor also checks the files, and three processes share the cores.",
  "ACP turn of one update, over the agent alone":
    "A turn is two or three commits and two inspections of the agent's process tree, in a dozen switches between four processes.",
  "ACP updates per second against parsing only":
    "Every update is stored before it is acknowledged; the comparison parses it and drops it. A third of the gateway's time is the transactions, a fifth garbage collection, a tenth parsing; and the anchor, which keeps the output, shares the cores with agent and gateway.",
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
    "The server's processes share the cores with the gateway, the anchors and the callers, and every commit waits for a switch to another process and back. SQLite commits inside the gateway.",
  "idle gateway on PostgreSQL, statements a minute":
    "Six each renew the gateway's entry, read the other gateways, look for stop requests of other hosts, and look for runs without an owner. Two look for due messages, and the rest are the checks of each minute.",
  "reconcile per record: verified alive":
    "Reading a record of 58 columns takes about 25 µs, and verifying an anchor and a leader 8 µs (four system calls each). The rest is the take-over: the lease and its event in a shared transaction, and the run in memory.",
  "reconcile per record: ended on record":
    "The statements of an ended run (one row of state, two events, five indexes) need about 22 µs in a shared transaction; reading the record, deciding and building the rows takes the rest.",
  "idle gateway, resident":
    "46 MB are files, nearly all of it Node's own binary, shared with every other Node process; 17 MB are live heap, code and schemas, and the rest is what V8 and the allocator need beside it.",
  "event-loop delay with 1,000 runs starting, p99":
    "Each turn of the event loop handles all requests and messages that have arrived, and with five callers those of several starts are among them.",
  "event-loop delay with 1,000 idle runs, p99":
    "Once every ten seconds the leases of all runs are renewed, in one statement.",
  "event-loop delay with 1,000 runs stopping, p99":
    "The ends of many runs arrive together and are committed in one transaction.",
};

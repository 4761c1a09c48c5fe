/** Defaults of runs, leases, anchors, output and terminals. */
export const runDefaults = {
  /** Time between TERM and KILL. Most agents need up to two seconds to shut down; five is common elsewhere. */
  graceMs: 5_000,
  /** How long processes that outlive their leader may exit by themselves before they are residue. Shell pipelines and helpers end within a few milliseconds of their parent. */
  settleMs: 100,
  /** Limit for reading output after the tree is empty. The rest is in kernel buffers by then; the limit is for a pipe that a process outside the run holds. */
  drainMs: 2_000,
  /** Time after KILL when survivors are reported. A process that can die does so within milliseconds. */
  killReportMs: 2_000,
  /** How long a task may run without an owner: long enough for a gateway restart or upgrade. */
  ownerLossMs: 120_000,
  /** The same for a foreground `holdfast run` with its own supervisor, to which no owner returns. */
  foregroundOwnerLossMs: 2_000,
  /** The same for a foreground run without a gateway: its caller starts one within seconds, or waits this long. */
  callerOwnerLossMs: 30_000,
  /** The anchor enforces a deadline this long after the owner should have, so that a stopped owner cannot keep a run alive. */
  backstopMs: 2_000,
  /** A lease is renewed three times before it expires, which is far above the longest wait for a busy store. */
  leaseMs: 30_000,
  renewMs: 10_000,
  /** Interval at which a supervisor checks its own locks; a check costs two stat calls. A deleted lock file protects nothing until the next check. */
  lockPollMs: 1_000,
  /** A supervisor that could not renew its leases stops controlling runs at this age, well before a lease expires. */
  selfFenceMs: 20_000,
  /** An owner that is alive but has not renewed for ten leases is stuck for good; its runs may be taken. */
  stalledOwnerMs: 300_000,
  /** How long a supervisor must have seen an expired lease while awake before it calls the owner stalled: after a suspend or an outage all leases are expired, and each owner renews its own within this time. */
  stalledWatchMs: 30_000,
  /** When the runs of a silent host are lost: a day covers a power cut at night. */
  hostLostMs: 24 * 3_600_000,
  /** Interval of the check for such hosts, which reads every open run. Ten minutes more do not matter after a day. */
  silentPollMs: 600_000,
  /** Interval of the check for runs without an owner: a third of a lease. */
  reconcileMs: 10_000,
  /** Ended runs are kept for a week, and no more than can be listed quickly. */
  endedKeptMs: 7 * 24 * 3_600_000,
  endedKept: 10_000,
  /** Output kept of all ended runs: 256 full spools of both streams. */
  outputKeptBytes: 4 * 1024 * 1024 * 1024,
  /** Interval of the removal of old records and output. */
  retainMs: 600_000,
  /** A launcher starts with an exec and a bind; ten seconds mean that the machine is in trouble. */
  launcherReadyMs: 10_000,
  /** A live anchor answers within a millisecond, a starved one within a second or two; one that is stopped or held by a debugger does not answer. */
  anchorAnswerMs: 4_000,
  /** Anchors that are kept ready, with their child about 150 kB each: enough for starts that follow each other, and for small bursts. */
  warmAnchors: 3,
  /** A program that starts one run needs none. */
  warmAfterStarts: 2,
  /** Until used ones are replaced: a short run has mostly ended by then, and does not compete with it. */
  warmDelayMs: 2,
  /** Wait after SIGCONT: the anchor runs at once and handles its waiting messages. */
  anchorContinueMs: 2_000,
  /** A connected anchor that was silent for this time gets a request for its state: a stopped one is noticed within 15 seconds, and 500 silent runs cost 50 small messages a second. */
  anchorAskMs: 10_000,
  /** Every command that stops a run answers within this time, grace period included, and reports the survivors. */
  stopBoundMs: 20_000,
  /** Wait for an anchor's list of members, which takes a millisecond. If a stopped anchor does not answer, the processes are inspected from outside. */
  membersMs: 2_000,
  /** Wait after an anchor died until the launcher has killed its processes and reported it. It kills a thousand processes in well under a second. */
  sweptWaitMs: 3_000,
  /** Interval of the check for the launcher's report, which comes within milliseconds; a check is one failing open. */
  sweptPollMs: 20,
  /** Attempts to reconnect to a live anchor, with growing pauses (about 6 s in all): the anchor checks its socket every 5 s. */
  reattachTries: 8,
  reattachPauseMs: 25,
  /** After the leader's exit, the end of the run usually follows within a millisecond; only a longer wait is recorded as `exiting`. */
  exitingNoteMs: 20,
  /** A command that ends within this time is recorded in one write with its start, or with its stop. Reads of the same process do not wait for it. */
  waitForEndMs: 10,
  /** Time that close() allows for the last messages, besides grace period, kill report and drain. */
  closeSlackMs: 2_000,
  /** Records reconciled at the same time after a restart. The work is on sockets and files, so a few dozen are enough. */
  recoverAtOnce: 32,
  /** The same for records without a run directory, which need only the store: one transaction for so many. */
  recordedAtOnce: 500,
  /** A service that does not listen by then is considered broken. A cold build of a large dev server takes less. */
  readyTimeoutMs: 60_000,
  /** Interval of the check for a service's port; grows. The kernel does not report when a process starts to listen, and a check starts a process. */
  readyPollMs: 20,
  readyPollMaxMs: 500,
  /** Time that an MCP server has to end after its client closed its input, before it is stopped. Clients themselves wait two seconds. */
  mcpInputGraceMs: 2_000,
  /** Labels of a run: tools set a handful of short ones. The limit on the size of all keys and values keeps a list of 1,000 runs readable. */
  labels: 64,
  labelKeyChars: 128,
  labelValueChars: 1_024,
  labelsBytes: 16 * 1024,

  // Output, terminals and logs.
  /** Bytes kept per stream: about 40 times what agents show, and small enough for 500 runs on a laptop. */
  spoolBytes: 8 * 1024 * 1024,
  /** At most one output event per run in this time: enough to show activity, few enough to keep. */
  outputHeartbeatMs: 5_000,
  /** Default terminal size. */
  rows: 24,
  cols: 80,
  /** Size of one read of a follower: large enough that the disk is the limit. */
  followBytes: 256 * 1024,
  /** Size of one WRITE frame: half of the frame limit. */
  stdinFrameBytes: 64 * 1024,
  /** Length of a command line for display: enough to recognize any command, short enough for a table and a record. */
  displayCommandChars: 500,
  /** Lines above a screen that are kept for attaching terminals. With 80 columns they take 1 MB. */
  scrollbackLines: 1_000,
  /** Largest terminal: larger than any monitor shows, and 1,400 lines of 500 cells take 8 MB. */
  screenMaxRows: 400,
  screenMaxCols: 500,
  /** Cached screens: more than an agent uses at a time, at most 8 MB each. */
  screensKept: 16,
  /** Length of a terminal title. */
  titleChars: 1_000,
  /** Terminal replies that are not taken: a program sends its queries at its start, for a few dozen bytes. */
  screenRepliesBytes: 4 * 1024,
  /** Output given to a screen that it has not drawn yet: a few reads of a follower. Only a caller that does not wait reaches it. */
  screenPendingBytes: 4 * 1024 * 1024,
  /** Size of one read of a log: a page of 200 lines fits into one. */
  logChunkBytes: 64 * 1024,
  /** Length of a shown line: far beyond what people write, so that only data and loops are cut. */
  logLineBytes: 16 * 1024,
  /** Size of a page: easy to hold for a client, and 60 of the longest lines. */
  logPageBytes: 1024 * 1024,
  /** Lines of a page, because empty lines cost, too. */
  logPageLines: 10_000,
  /** Silence after which a program without a prompt may be waiting for input: builds and tests pause less. */
  waitingIdleMs: 15_000,
  /** Silence after a prompt: a program that continues by itself does so at once. */
  waitingPromptIdleMs: 1_000,
} as const;

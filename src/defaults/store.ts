/** Defaults of the store and its local copy. */
export const storeDefaults = {
  /** Events kept per state directory; the oldest are removed first. About 30 MB, or an hour of 100 busy runs. */
  eventsKept: 100_000,
  /** Wait for a busy store: longer than any transaction, shorter than a lease. */
  storeBusyMs: 5_000,
  /** Time to connect to each of several database hosts, or its share of the time above if that is more. A reachable host answers in milliseconds, and the next host must be tried before the lease is in danger. */
  storeHostConnectMs: 1_000,
  /** Pause before a locked SQLite file is tried again; doubles. A transaction takes well under a millisecond, and 20 attempts a second cost nothing while a lock stays. */
  storeLockRetryMs: 1,
  storeLockRetryMaxMs: 50,
  /** Commits between two looks at the size of SQLite's log. A look takes ten microseconds. */
  storeLogCheckCommits: 16,
  /** Size of SQLite's log at which commits are held off so that it starts again: 16 MB, four times the size at which a checkpoint starts. */
  storeLogRestartPages: 4_000,
  /** How long a commit may be held off for that, by another process that reads. */
  storeLogRestartMs: 50,
  /** Size of SQLite's log at which a commit makes the checkpoint, which takes a busy disk half a second: 64 MB, which it does not reach while the thread for checkpoints keeps up. */
  storeLogMaxPages: 16_000,
  /** The thread for checkpoints ends after this time without one: its start takes 20 ms of another core. */
  storeLogIdleMs: 30_000,
  /** Connections of one supervisor to PostgreSQL, without the gateway's listening one. Statements take a millisecond, and a server has about a hundred connections for all clients. */
  storeConnections: 4,
  /** All connections but one are closed after this time without use. It is below the interval of periodic jobs, so that an idle gateway closes them. */
  storeIdleMs: 3_000,
  /** Interval of the check for events that other supervisors wrote to the same SQLite file. */
  sqliteEventPollMs: 200,
  /** Interval of the check for events without a notification, which may have been lost with a connection. */
  eventPollMs: 5_000,
  /** Events that are committed within this time share a notification: longer than a short run, far below what a reader notices. */
  eventNotifyDelayMs: 10,
  /** Pause before a refused write is repeated; doubles up to the maximum: short after a lock, long on a full disk. */
  storeRetryMs: 50,
  storeRetryMaxMs: 5_000,
  /** A caller that waits for a run's end is answered this long after the end if the record is not written by then. A commit takes milliseconds, and a person notices two seconds. */
  recordWaitMs: 1_500,
  /** Pause before a starting gateway tries an unreachable database again; doubles, with jitter, so that many hosts do not connect at the same moment. */
  storeAwayRetryMs: 250,
  storeAwayRetryMaxMs: 10_000,
  /** Wait for the store in a health check: a working store answers within this time. */
  storeAnswerMs: 1_000,
  /** Wait for the store if the local copy also has the answer: three such waits and the work stay below a second. */
  localAnswerMs: 250,
  /** The same for lists. It is longer, because a busy server takes longer to list, and the local list lacks the runs of other hosts. */
  localListMs: 500,
  /** Pause before the next request to a store that did not answer; until then the local copy answers at once. */
  localRetryMs: 2_000,
  /** A statement that fails after this time or later shows that the server hangs: further statements fail at once until it answers again. */
  storeHangMs: 1_000,
  /** Interval of the attempts to reach a server that hangs. */
  storeProbeMs: 250,
  /** How long a statement waits for a probe of a server that hung: a server that works again answers within this time. */
  storeReopenMs: 150,
  /** Ended runs kept in the local copy, in case the store is restored from a backup: a nightly backup, and far more than a host ends in an hour. */
  ledgerEndsKeptMs: 24 * 3_600_000,
  ledgerEndsKept: 1_000,
  /** The same for ended tasks and deliveries: a record takes one or two kilobytes of memory. */
  ledgerTasksKept: 5_000,
  /** After a server was replaced, messages that other gateways may have delivered wait this long: each gateway compares its records every 10 s, and again if the task was restored by then. */
  outboxDoubtMs: 20_000,
  /** Events of a task in the local copy besides its start and end: as many as a person reads. */
  ledgerTaskEventsKept: 20,
} as const;

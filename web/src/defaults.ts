/** The intervals of the page in milliseconds. Only a visible page with a connection polls. */
export const defaults = {
  // Polls, for what changes without an event of a run.

  /** A question may be answered elsewhere or expire while it is read: an answer after that is refused, so late is safe. */
  questionPollMs: 2_000,
  /** New questions in the view that answers them. */
  approvalsPollMs: 2_000,
  /** New questions in the first view, which is open all day. An agent waits minutes for an answer. */
  waitingPollMs: 3_000,
  /** Decided questions: nothing waits for them. */
  decidedPollMs: 5_000,
  /** The processes of one run, and those in the dialog that stops it. Each reading costs the gateway a scan. */
  processesPollMs: 2_000,
  /** A task that somebody watches; programs report progress every few seconds at most. */
  taskPollMs: 2_000,
  /** The shown tasks of a list. */
  tasksPollMs: 4_000,
  /** The state of a shown session. Its conversation is a stream. */
  sessionPollMs: 4_000,
  /** The list of sessions, which may be long. */
  sessionsPollMs: 5_000,
  /** Whether gateway and store work. */
  statusPollMs: 5_000,
  /** Heartbeats of other gateways are older than this anyway, and an audit reads all tasks. */
  hostsPollMs: 10_000,
  auditPollMs: 10_000,
  /** The gateway takes one sample a minute; the newest is of now. */
  historyPollMs: 15_000,
  /** Nothing reports that an ended run was removed. */
  removedPollMs: 30_000,
  /** The screen of a terminal as text. */
  screenTextMs: 500,

  // The processes of all runs, for the list of runs.

  /** The first two readings give the first values of CPU. */
  usageFirstMs: 1_000,
  usageShortestMs: 2_000,
  usageLongestMs: 20_000,
  /** A reading may take this part of the time, so that an open page costs the gateway little. */
  usageTimeShare: 1 / 20,

  // Events that arrive together cause one read.

  /** Of changed runs: a list that is behind by this looks live. */
  runsCollectMs: 150,
  /** Of runs that print: a list of many changes at most eight times a second. */
  outputCollectMs: 120,
  /** Of the updates of a conversation, which arrive word by word. */
  updatesCollectMs: 150,
  /** Of a view's own data. */
  viewCollectMs: 250,
  /** Of a list of tasks: its page is read again as a whole. */
  tasksCollectMs: 400,

  // Connections.

  /** Reconnecting: a restarted gateway answers within the first pauses. */
  reconnectFirstMs: 250,
  reconnectLastMs: 5_000,
  /** How long "restored" is shown. */
  restoredShownMs: 4_000,
  /** A request for further output waits so long in the gateway, which allows thirty seconds. */
  outputWaitMs: 25_000,
  /** A log that grows is drawn at this interval. */
  outputShowMs: 200,
  outputRetryMs: 1_000,

  /** A question is answered only after it was on the screen for this long: no click meant for something else answers it. */
  answerArmMs: 600,
} as const;

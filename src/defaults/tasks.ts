/** Defaults of tasks, notifications and channels. */
export const taskDefaults = {
  /** Time for a receiver of notifications to answer: working ones answer within a second. */
  channelAnswerMs: 10_000,
  /** The same for a program, which may have to start a runtime and reach a server. */
  channelProgramMs: 20_000,
  /** Largest configurable value of both: one delivery attempt takes at most half a minute. */
  channelMostMs: 25_000,
  /** Bytes read of an answer: answers of the Bot API are below a kilobyte. */
  channelAnswerBytes: 64 * 1024,
  /** Characters of an answer, or of a program's output, in the reason of a failed delivery. */
  channelExcerptChars: 200,
  /** Interval of typing indicators: Telegram shows one for five seconds. */
  typingEveryMs: 4_500,
  /** Pause after a typing indicator that failed: it is not important, and must not load a receiver in trouble. */
  typingPauseMs: 60_000,
  /** Characters of each text of a notification: far above what a person reads in one. */
  channelTextChars: 16_000,
  /** Telegram rejects longer messages; Slack recommends no longer ones. */
  telegramTextChars: 4_096,
  slackTextChars: 4_000,
  /** A desktop notification shows a few lines. */
  desktopTextChars: 1_000,
  /** Longest pause that a receiver may request before the next attempt. */
  channelRetryAfterMs: 24 * 3_600_000,
  /** Events kept of a task besides its start and end: what a person reads. */
  taskEventsKept: 100,
  /** Lengths of a task's label and progress (one line of a table), of its result (a page, and one chat message), error and text. */
  taskLabelChars: 120,
  taskProgressChars: 240,
  taskSummaryChars: 4_000,
  taskErrorChars: 1_000,
  taskTextChars: 16_000,
  /** Characters of the result in a notification: readable on a phone without scrolling. The record has all of it. */
  taskNoticeChars: 1_000,
  /** Length of a key that a caller gives to its work. */
  taskKeyChars: 200,
  /** Smallest distance of notifications about changes of one task: one a minute can be read. */
  taskStateNoticeMs: 60_000,
  /**
   * Bounds of `deliver = "wake"`: results that wake an agent, whose work again wakes it, form at most this many turns in
   * a row, and at most so many turns of one session in an hour. Beyond, the user is notified instead.
   */
  wakeDepth: 10,
  wakesPerHour: 30,
  /** A result that has not become a turn of an idle agent for so long is sent to the user: the agent does not start. */
  wakeWaitMs: 60_000,
  /** Targets of one task. More are not needed, and each is a message. */
  taskTargets: 16,
  /** Smallest distance of progress updates in a task's record: each is a write to the disk. */
  taskProgressMs: 5_000,
  /** A task that was silent for this time is reported as stalled: longer than a build or a model is silent. */
  taskStallMs: 600_000,
  /** Interval of the check of all open tasks. */
  taskSweepMs: 60_000,
  /** The work of a new task is not missing yet. Its record follows within milliseconds, or seconds under load. */
  taskStartMs: 10_000,
  /** A task whose run or session is gone for this time is lost: a supervisor takes over a run in less time. */
  taskLostMs: 300_000,
  /** Ended tasks are kept as long as their runs. */
  taskKeptMs: 7 * 86_400_000,
  /** A task that is queued for longer may wait forever; one that is silent while running may hang. */
  taskStaleQueuedMs: 600_000,
  taskStaleRunningMs: 1_800_000,
  /** Pause between delivery attempts: a receiver that restarts is back after the first, and one that is down gets few requests. */
  deliveryRetryMs: 15_000,
  deliveryRetryMostMs: 300_000,
  /** Time of all attempts: a receiver that was unreachable for this long needs a person. */
  deliveryInAllMs: 1_800_000,
  /** Attempts whose sender died before it recorded the result: more restarts than one message meets by chance. */
  deliveryUnheardMost: 20,
  /** Time of one attempt: a receiver answers within a second or two, a busy one within ten. */
  deliveryMs: 30_000,
  /** How long no other gateway sends the message: one attempt, and time to record its result on a loaded machine. */
  deliveryLeaseMs: 60_000,
  /** Messages sent at the same time: they wait for receivers and cost little. */
  deliveriesAtOnce: 16,
  /** A receiver that takes longer is slow and gets at most half of these, so that others do not wait for it. */
  deliverySlowMs: 2_000,
  /** Interval of the check for messages that another gateway left. */
  deliveryPollMs: 30_000,
} as const;

/** Defaults of output, terminals and logs. */
export const outputDefaults = {
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
  /** Terminal replies that are not taken: a program asks once at its start, for a few dozen bytes. */
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

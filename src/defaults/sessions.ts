/** Defaults of sessions, messages, approvals and one-shot agents. */
export const sessionDefaults = {
  /** Closed sessions are kept as long as their runs, and answered approvals for a month. */
  sessionsKeptMs: 7 * 24 * 3_600_000,
  approvalsKeptMs: 30 * 24 * 3_600_000,
  /** Messages are kept as long as approvals. */
  messagesKeptMs: 30 * 24 * 3_600_000,
  /** Messages kept per session: months of conversation, and small enough for a thousand sessions on a laptop. */
  historyBytes: 8 * 1024 * 1024,
  historyMessages: 10_000,
  /** Length of one message: the kept text of a turn (acpTextChars), and below the request limit. */
  messageChars: 1_000_000,
  /** Messages that wait for one session. An agent that is away for more will not read them. */
  inboxMessages: 100,
  /** Records of one session (runs with their labels, tasks): 10,000 runs with typical labels take 20 MB. */
  sessionStoredBytes: 128 * 1024 * 1024,
  /** How old the size of a session's records may be: it is counted in the store, which takes milliseconds. */
  sessionStoredLookMs: 60_000,
  /** Characters of an approval request in one answer of the API: a few screens; and characters of one text before it continues in another piece. */
  questionPageChars: 64 * 1024,
  questionPieceChars: 16 * 1024,
  /** Time to answer an approval request: an agent waits meanwhile, and its own request must not hang forever. */
  approvalMs: 300_000,
  /** Approval requests of one session that wait at the same time: more than an agent's parallel tools, few enough for a person to read. */
  approvalsPending: 32,
  /** Approval events that a follower has not read yet. A follower that is further behind is disconnected. */
  approvalsUnread: 1_000,
  /** Output kept of a one-shot agent: the largest seen was a few MB of JSON. */
  agentSpoolBytes: 32 * 1024 * 1024,
  /** Time for an agent's command to print its version. Node agents take one to three seconds. */
  agentVersionMs: 20_000,
  /** Time to search a PATH that a caller gave: local directories take milliseconds, and a CLI waits for the answer. */
  agentPathMs: 2_000,
  /** Directories of such a PATH: the longest one seen, in a Nix shell, had about 150. */
  agentPathDirectories: 512,
  /** Queued requests with a PATH: there are more only if a directory does not answer. */
  agentPathWaiting: 16,
  /** Characters of an agent's stderr that are kept with the reason of its failure. */
  agentComplaintChars: 2_000,
  /** Characters of waiting messages that are passed to a command with a prompt, possibly on its command line; also of messages that are passed to an agent again, which may have been too long for it. */
  agentCarriedChars: 16_000,
} as const;

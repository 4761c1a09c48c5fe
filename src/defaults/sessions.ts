import { taskDefaults } from "./tasks.js";

/** Defaults of sessions, messages, approvals and agents. */
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
  sessionStoredMaxAgeMs: 60_000,
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

  // ACP agents.
  /** One frame of an ACP agent: the limit of the protocol's own library; the largest seen was 5 MB. */
  acpFrameBytes: 32 * 1024 * 1024,
  /** Output of an ACP agent that is kept until it is handled: a frame is acknowledged as a whole, so the largest must fit, and a follower's read. */
  acpSpoolBytes: 33 * 1024 * 1024,
  /** Frames handled in one commit: many share it, and few are repeated if it fails. */
  acpBatchFrames: 1_000,
  /** Tolerated lines that are not frames: stray prints are a few, and a program that is not an agent soon exceeds it. */
  acpMalformedLines: 1_000,
  /** Characters shown of such a line, and of an agent's error. */
  acpExcerptChars: 200,
  /** Bytes kept of an agent's stderr, enough for its last stack trace; and of one line of it. */
  acpStderrBytes: 16 * 1024,
  acpStderrLineBytes: 2 * 1024,
  /** Node agents answer within two seconds; a cold disk and a package runner need longer. */
  acpInitializeMs: 60_000,
  /** A session starts its tool servers first. */
  acpNewSessionMs: 120_000,
  /** Silence during a turn, without open permission requests, that is reported as a stall: as long as that of a task. It ends nothing: a model may think, and a tool may build, for longer. */
  acpStallMs: taskDefaults.taskStallMs,
  /** Time to exit after the end of input: most agents take 170 ms, some two seconds. */
  acpOwnExitMs: 3_000,
  /** Characters of a turn's text in an answer of the API that is not about this turn alone: a book has a million. */
  acpTextChars: 1_000_000,
  /** Parts of a turn kept in memory and in its record: its newest text (a dozen books), tool calls and plan. */
  acpKeptTextChars: 16_000_000,
  acpToolCalls: 1_000,
  acpPlanEntries: 100,
  /** Models, modes, values of an option or slash commands that are kept of an agent: a catalogue of all providers has some hundreds. */
  acpChoices: 1_000,
  /** Updates of one turn kept in the store: a long day's work with tools takes a few megabytes. */
  acpTurnBytes: 16 * 1024 * 1024,
  /** Size of a page of updates: many of the usual ones, and a thousand pages of the largest fit into memory. */
  acpPageBytes: 1024 * 1024,
  /** Updates of turns that ended longer ago are removed; the result of a turn stays with the session. */
  acpUpdatesKeptMs: 7 * 86_400_000,
  /** Prompts of one session that wait for their turn. */
  acpQueued: 32,
  /** Characters of a permission request that the rules check and that are shown: longer than a person reads before an answer; and its options. */
  acpAskedChars: 16 * 1024,
  acpAskedOptions: 32,
  /** Characters of the details that agents of one session give about tool calls, kept in memory while permission requests wait: one whole frame. */
  acpDetailChars: 32 * 1024 * 1024,
  /** Requests of an agent in one turn: a day's work uses thousands of tools, and an agent in a loop ends here. */
  acpPermissionRequests: 10_000,
  /** A cancel is answered within 306 ms by agents that answer it; this is for one that cleans up first, on a loaded machine. */
  acpCancelMs: 10_000,
  /** The end of a turn is stored with the list of the processes it left, which takes a millisecond; if it takes longer, the list is stored later. */
  acpAuditMs: 50,
  /** Time for processes of an ended turn to end by themselves, before they are reported: an adapter's helper takes half a second. */
  acpSettleMs: 1_000,
  /** A session for one run whose gateway died before its prompt was stored closes itself after this time: its caller repeats the request within seconds. */
  acpUnusedRunMs: 30_000,
  /** Grace period of tools that are stopped. */
  acpToolGraceMs: 2_000,
  /** `session/close` and `session/delete`: the end of the processes matters, not the answer. */
  acpCloseMs: 5_000,
  /** A login in a browser: a person looks up a password and a second factor. */
  acpLoginMs: 600_000,
  /** Length of a prompt: what fits into a request to the gateway. */
  acpPromptChars: 1_000_000,
  /** Size of the files of a prompt, as they are sent: with a long text they fit into a request to the gateway (requestBytes). */
  acpContentBytes: 3 * 1024 * 1024,
  /** Files, images and links of one prompt: more than a person attaches. */
  acpContentParts: 64,
  /** Size of a file that an agent reads or writes through the gateway: JSON may need six times as much, and a frame has 32 MiB. */
  acpFileBytes: 4 * 1024 * 1024,
  /** Terminals of one agent that it has not released: more than a model uses. */
  acpTerminals: 16,
  /** Length of a command and its variables: more than the kernel allows for one word, and searched for secrets within 100 ms. */
  acpCommandChars: 512 * 1024,
  /** Bytes of a terminal's output, as the limit and as the default: a model reads far less. */
  acpTerminalBytes: 1024 * 1024,
} as const;

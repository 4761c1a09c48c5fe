/** Defaults of the MCP server. */
export const mcpDefaults = {
  /** Characters of each stream in one answer of a tool: some thousand tokens, which a model can afford in each turn. */
  mcpOutputChars: 16_000,
  /** Size of one message over stdio; as large as a request to the gateway. A longer line is skipped and refused. */
  mcpMessageBytes: 4 * 1024 * 1024,
  /** No more is read over stdio while so many requests, or bytes of requests, are unanswered: far above what an agent sends. */
  mcpUnansweredRequests: 1_024,
  mcpUnansweredBytes: 32 * 1024 * 1024,
  /** Calls of tools over stdio that are under way at the gateway; others wait. Below the gateway's limit of a session. */
  mcpCallsAtOnce: 128,
  /** Sessions of clients over HTTP that initialize (up to 2025-11-25), in memory; the least recently used is forgotten first. */
  mcpLegacySessions: 256,
  /** Those of one token, so that one client cannot make the gateway forget those of others. */
  mcpLegacySessionsOfToken: 32,
  /** A session of the protocol without a request or an open stream for so long belongs to a client that is gone. */
  mcpLegacyIdleMs: 3_600_000,
  /** Lifetime of the token of a stdio server, which gets another one when it ends. */
  mcpTokenMs: 24 * 3_600_000,
  /** Open subscriptions over stdio; each is a request without an answer. */
  mcpSubscriptions: 32,
  /** Resources and tasks that one connection follows; each is a request that waits, and half of those are left for calls. */
  mcpFollowed: 64,
  /** Shortest time between two notifications about one resource. */
  mcpNotifyMs: 500,
  /** How often a client should ask for the state of a task. */
  mcpTaskPollMs: 1_000,
} as const;

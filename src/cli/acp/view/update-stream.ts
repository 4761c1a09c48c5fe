import { ReconnectingStream, type ReconnectingStreamOptions } from "../../client/reconnect.js";
import type { WatchedUpdate } from "./notice-texts.js";

interface AcpUpdateStreamOptions extends Pick<ReconnectingStreamOptions, "connection" | "after" | "notice"> {
  readonly sessionId: string;
}

/** The updates of a session until it is closed. */
export class AcpUpdateStream extends ReconnectingStream<WatchedUpdate> {
  constructor({ sessionId, ...parts }: AcpUpdateStreamOptions) {
    const params = { id: sessionId };
    super({
      ...parts,
      path: `/v1/acp/sessions/${sessionId}/updates`,
      isOver: async (client, last) => {
        const { session } = await client.acpShow({ params });
        if (session.state !== "closed") return false;
        // It may have been closed since the stream ended.
        return (await client.acpWatch({ params, query: { after: last, limit: 1 } })).updates.length === 0;
      },
      subject: "the agent",
      laterCommand: `holdfast acp history ${sessionId}`,
    });
  }
}

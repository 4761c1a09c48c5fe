import type { ResponseOf } from "../../../api/contract.js";
import { ReconnectingStream, type ReconnectingStreamOptions } from "../../client/reconnecting-stream.js";
import type { Notice, ShownTurn } from "./turn-result.js";

export type WatchedUpdate = ResponseOf<"acpWatch">["updates"][number];

export interface AcpUpdateStreamOptions extends Pick<
  ReconnectingStreamOptions,
  "connection" | "after" | "say"
> {
  readonly sessionId: string;
}

/** What happens in a session until it is closed. */
export class AcpUpdateStream extends ReconnectingStream<WatchedUpdate> {
  constructor({ sessionId, ...parts }: AcpUpdateStreamOptions) {
    const params = { id: sessionId };
    super({
      ...parts,
      path: `/v1/acp/sessions/${sessionId}/updates`,
      isOver: async (client, last) => {
        const { session } = await client.acpShow({ params });
        if (session.state !== "closed") return false;
        // It may have been closed since the stream broke off.
        return (await client.acpWatch({ params, query: { after: last, limit: 1 } })).updates.length === 0;
      },
      subject: "the agent",
      laterCommand: `holdfast acp history ${sessionId}`,
    });
  }
}

/** How what happens is shown. */
export interface AcpView {
  show(update: WatchedUpdate): void;
  /** A turn that was waited for has ended, and this is its record. */
  turnEnded(turn: ShownTurn): void;
  /** Beside what the agent says. */
  notice(remark: Notice): void;
  /** What comes next is not the view's. */
  flush(): void;
}

/** What an update of a turn says of it. */
export type TurnChange = Pick<ShownTurn, "turnId" | "state"> &
  Partial<Pick<ShownTurn, "prompt" | "outcome" | "stopReason" | "problem">>;

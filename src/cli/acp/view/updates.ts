import type { ResponseOf } from "../../../api/contract.js";
import { ReconnectingStream, type ReconnectingStreamOptions } from "../../client/reconnect.js";
import type { Notice, ShownTurn } from "./turn-result.js";

export type WatchedUpdate = ResponseOf<"acpWatch">["updates"][number];

export interface AcpUpdateStreamOptions extends Pick<
  ReconnectingStreamOptions,
  "connection" | "after" | "notice"
> {
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

/** Shows the updates of a session in one format. */
export interface AcpView {
  show(update: WatchedUpdate): void;
  /** A turn that the command waited for has ended. */
  turnEnded(turn: ShownTurn): void;
  /** Prints a notice beside the agent's text. */
  notice(remark: Notice): void;
  /** The next output does not come from the view. */
  flush(): void;
}

/** The fields of a turn that an update carries. */
export type TurnChange = Pick<ShownTurn, "turnId" | "state"> &
  Partial<Pick<ShownTurn, "prompt" | "outcome" | "stopReason" | "problem">>;

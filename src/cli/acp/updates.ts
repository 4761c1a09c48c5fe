import type { AnswerOf } from "../../gateway/contract/contract.js";
import { Followed, type FollowedParts } from "../gateway/followed.js";

export type Update = AnswerOf<"acpWatch">["updates"][number];

export interface UpdatesParts extends Pick<FollowedParts, "connection" | "after" | "say"> {
  readonly sessionId: string;
}

/** What happens in a session until it is closed. */
export class Updates extends Followed<Update> {
  constructor({ sessionId, ...parts }: UpdatesParts) {
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
      what: "the agent",
      later: `holdfast acp history ${sessionId}`,
    });
  }
}

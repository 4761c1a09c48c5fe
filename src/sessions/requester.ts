import type { SessionRecord } from "../model/session.js";

/** The operator or session that makes a request; a session as it was when its token was checked. */
export type Requester =
  | { readonly kind: "operator"; readonly actor: string }
  | {
      readonly kind: "session";
      readonly actor: string;
      readonly session: SessionRecord;
      /** True if the token is still valid. Absent: another gateway checked the token. */
      readonly isTokenValid?: () => Promise<boolean>;
    };

/** Null: an operator. */
export function sessionIdOf(requester: Requester): string | null {
  return requester.kind === "session" ? requester.session.id : null;
}

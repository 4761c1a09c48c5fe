import { notice } from "../../print/stderr.js";
import { printOrThrow, toJson } from "../../print/stdout.js";
import { type OutputFormat, permissionLine, type PermissionRequest } from "./formats.js";
import { TextView, type TextViewOptions } from "./text-view.js";
import { type Notice, type ShownTurn, turnEndNotice } from "./turn-result.js";
import type { WatchedUpdate } from "./updates.js";

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

export function createView(format: OutputFormat | "record", options: TextViewOptions): AcpView {
  switch (format) {
    case "text":
      return new TextView(options);
    case "json":
      return { ...silentView, show: (update) => printOrThrow(toJson(update)) };
    case "quiet":
      return {
        ...silentView,
        turnEnded: ({ text }) => printOrThrow(text === "" ? "" : `${text.trimEnd()}\n`),
      };
    case "record":
      return silentView;
  }
}

const silentView: AcpView = {
  show: ({ type, data }) => {
    const remark = type === "turn" ? endNotice(data as TurnChange) : null;
    if (remark !== null) notice(...remark);
    // Or it would be waited for, and nobody would know what for.
    const question = type === "permission" ? (data as PermissionRequest) : null;
    if (question?.decision === null) notice(permissionLine(question, Date.now()) ?? "", "yellow");
  },
  turnEnded: () => undefined,
  notice: (remark) => notice(...remark),
  flush: () => undefined,
};

function endNotice({ state, outcome = null, stopReason = null, problem = null }: TurnChange): Notice | null {
  return state === "ended" ? turnEndNotice({ outcome, stopReason, problem }) : null;
}

import { toJson } from "../json.js";
import { printOn } from "../runs/print.js";
import { say } from "../complain.js";
import { endRemark, type Remark, type Turn } from "./ending.js";
import type { Format } from "./formats.js";
import { permissionLine, type Permission } from "./permission-line.js";
import { TextView, type TextViewOptions } from "./text-view.js";
import type { Update } from "./updates.js";

/** How what happens is shown. */
export interface View {
  show(update: Update): void;
  /** A turn that was waited for has ended, and this is its record. */
  ended(turn: Turn): void;
  /** Beside what the agent says. */
  remark(remark: Remark): void;
  /** What comes next is not the view's. */
  settle(): void;
}

/** What an update of a turn says of it. */
export type TurnNews = Pick<Turn, "turnId" | "state"> &
  Partial<Pick<Turn, "prompt" | "outcome" | "stopReason" | "problem">>;

export function viewOf(format: Format | "record", options: TextViewOptions): View {
  switch (format) {
    case "text":
      return new TextView(options);
    case "json":
      return { ...silent, show: (update) => printOn(toJson(update)) };
    case "quiet":
      return { ...silent, ended: ({ text }) => printOn(text === "" ? "" : `${text.trimEnd()}\n`) };
    case "record":
      return silent;
  }
}

const silent: View = {
  show: ({ type, data }) => {
    const remark = type === "turn" ? endOf(data as TurnNews) : null;
    if (remark !== null) say(...remark);
    // Or it would be waited for, and nobody would know what for.
    const question = type === "permission" ? (data as Permission) : null;
    if (question?.decision === null) say(permissionLine(question, Date.now()) ?? "", "yellow");
  },
  ended: () => undefined,
  remark: (remark) => say(...remark),
  settle: () => undefined,
};

function endOf({ state, outcome = null, stopReason = null, problem = null }: TurnNews): Remark | null {
  return state === "ended" ? endRemark({ outcome, stopReason, problem }) : null;
}

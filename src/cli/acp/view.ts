import { printOn } from "../runs/print.js";
import { say } from "../complain.js";
import { endRemark, type Remark, type Turn } from "./ending.js";
import type { Format } from "./formats.js";
import { toJson } from "./json.js";
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
    if (type !== "turn") return;
    const { state, outcome = null, stopReason = null, problem = null } = data as TurnNews;
    const remark = state === "ended" ? endRemark({ outcome, stopReason, problem }) : null;
    if (remark !== null) say(...remark);
  },
  ended: () => undefined,
  remark: (remark) => say(...remark),
  settle: () => undefined,
};

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { INTERACTION_MODES } from "../../src/model/enums.js";
import {
  resolveNotificationRouting,
  type ChatOrigin,
  type RoutingRequest,
} from "../../src/tasks/notification-routing.js";

const PARENT = "ses_parent";
const REQUESTER = "ses_requester";
const chat = (kind: ChatOrigin["chat"]): ChatOrigin => ({ chat: kind, channel: "team", address: "42" });

/** The target: `P`arent, `R`equester, the user's `C`hat, or none. */
type Hears = "P" | "R" | "C" | "-";

/** Text and progress, then typing; for each origin: not known, direct, group, channel. */
const table: readonly [
  mode: RoutingRequest["mode"],
  parent: boolean,
  requester: boolean,
  kind: string,
  ...byOrigin: [`${Hears}${Hears}`, `${Hears}${Hears}`, `${Hears}${Hears}`, `${Hears}${Hears}`],
][] = [
  ["run", true, true, "background", "P-", "P-", "P-", "P-"],
  ["run", true, false, "background", "P-", "P-", "P-", "P-"],
  ["run", false, true, "interactive", "R-", "CC", "R-", "R-"],
  ["run", false, false, "interactive", "--", "CC", "--", "--"],
  ["interactive", true, true, "interactive", "P-", "CC", "R-", "R-"],
  ["interactive", true, false, "interactive", "P-", "CC", "P-", "P-"],
  ["interactive", false, true, "interactive", "R-", "CC", "R-", "R-"],
  ["interactive", false, false, "interactive", "--", "CC", "--", "--"],
];
const origins = [null, chat("direct"), chat("group"), chat("channel")] as const;
const targets = {
  P: { kind: "session", sessionId: PARENT },
  R: { kind: "session", sessionId: REQUESTER },
  C: { kind: "channel", channel: "team", address: "42" },
  "-": null,
} as const;

const rows = table.flatMap(([mode, parent, requester, kind, ...byOrigin]) =>
  byOrigin.map((hears, at) => ({
    mode,
    parentSessionId: parent ? PARENT : null,
    requesterSessionId: requester ? REQUESTER : null,
    origin: origins[at] ?? null,
    kind,
    hears,
  })),
);

describe("the targets of work", () => {
  test.each(rows)(
    "$mode, parent $parentSessionId, requester $requesterSessionId, origin $origin.chat: $kind, $hears",
    ({ kind, hears, ...request }) => {
      const [said, typing] = [hears[0], hears[1]] as [Hears, Hears];
      expect(resolveNotificationRouting(request)).toEqual({
        kind,
        text: targets[said],
        progress: targets[said],
        typing: targets[typing],
      });
    },
  );

  test("the table lists every case once", () => {
    const cases = INTERACTION_MODES.flatMap((mode) =>
      [PARENT, null].flatMap((parent) =>
        [REQUESTER, null].flatMap((requester) =>
          origins.map((origin) => JSON.stringify([mode, parent, requester, origin])),
        ),
      ),
    );
    const found = rows.map((row) =>
      JSON.stringify([row.mode, row.parentSessionId, row.requesterSessionId, row.origin]),
    );
    expect(found.toSorted()).toEqual(cases.toSorted());
  });
});

const origin = fc.record({
  chat: fc.constantFrom("direct" as const, "group" as const, "channel" as const),
  channel: fc.string(),
  address: fc.option(fc.string()),
});
const request = fc.record({
  mode: fc.constantFrom(...INTERACTION_MODES),
  parentSessionId: fc.option(fc.string()),
  requesterSessionId: fc.option(fc.string()),
  origin: fc.option(origin),
});

test("a background child never reaches a user's channel, and nothing is sent to a group directly", () => {
  fc.assert(
    fc.property(request, (asked) => {
      const { kind, ...lanes } = resolveNotificationRouting(asked);
      const background = asked.mode === "run" && asked.parentSessionId !== null;
      expect(kind).toBe(background ? "background" : "interactive");
      const reached = Object.values(lanes).some((target) => target?.kind === "channel");
      expect(reached).toBe(!background && asked.origin?.chat === "direct");
    }),
  );
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DELIVER_MODES, INTERACTION_MODES } from "../../src/model/enums.js";
import type { ChatOrigin } from "../../src/model/task.js";
import {
  addTarget,
  canShowTyping,
  isNotifiedOfChanges,
  resolveNotificationRouting,
  type RoutingRequest,
} from "../../src/tasks/notification-routing.js";

const PARENT = "ses_parent";
const REQUESTER = "ses_requester";
const chat = (kind: ChatOrigin["chat"]): ChatOrigin => ({ chat: kind, channel: "team", address: "42" });
const inherited: ChatOrigin = { chat: "direct", channel: "default", address: null };

/**
 * The targets: `P`arent or `R`equester, the user's `C`hat or the inherited `D`efault, or none. In lower case: only the
 * end.
 */
const table: readonly [
  mode: RoutingRequest["mode"],
  parent: boolean,
  requester: boolean,
  ...byOrigin: [none: string, direct: string, group: string, channel: string],
][] = [
  ["run", true, true, "Pd", "Pc", "Pc", "Pc"],
  ["run", true, false, "Pd", "Pc", "Pc", "Pc"],
  ["run", false, true, "Rd", "C", "Rc", "Rc"],
  ["run", false, false, "D", "C", "C", "C"],
  ["interactive", true, true, "Pd", "C", "Rc", "Rc"],
  ["interactive", true, false, "Pd", "C", "Pc", "Pc"],
  ["interactive", false, true, "Rd", "C", "Rc", "Rc"],
  ["interactive", false, false, "D", "C", "C", "C"],
];
const origins = [null, chat("direct"), chat("group"), chat("channel")] as const;
const targets = {
  P: { kind: "session", sessionId: PARENT },
  R: { kind: "session", sessionId: REQUESTER },
  C: { kind: "channel", channel: "team", address: "42" },
  c: { kind: "channel", channel: "team", address: "42", on: "end" },
  D: { kind: "channel", channel: "default", address: null },
  d: { kind: "channel", channel: "default", address: null, on: "end" },
} as const;
type Letter = keyof typeof targets;

const rows = table.flatMap(([mode, parent, requester, ...byOrigin]) =>
  byOrigin.map((told, at) => ({
    mode,
    parentSessionId: parent ? PARENT : null,
    requesterSessionId: requester ? REQUESTER : null,
    origin: origins[at] ?? null,
    told,
  })),
);

describe("the targets of work", () => {
  test.each(rows)(
    "$mode, parent $parentSessionId, requester $requesterSessionId, origin $origin.chat: $told",
    ({ told, ...request }) => {
      const routed = (deliver: RoutingRequest["deliver"], known: ChatOrigin | null) =>
        resolveNotificationRouting({ ...request, inherited: known, deliver }).targets;
      const letters = told.split("") as Letter[];
      expect(routed("user", inherited)).toEqual(letters.map((letter) => targets[letter]));
      // Without a known chat, the chat is left out.
      const withoutDefault = letters.filter((letter) => letter !== "d" && letter !== "D");
      expect(routed("user", null)).toEqual(withoutDefault.map((letter) => targets[letter]));

      const session = letters.find((letter) => letter === "P" || letter === "R");
      const user = letters.find((letter) => letter !== session);
      const expected = letters.map((letter) => targets[letter]);
      const onlySession = session === undefined ? expected : [targets[session]];
      expect(routed("session", inherited)).toEqual(onlySession);
      if (session === undefined) expect(routed("wake", inherited)).toEqual(expected);
      else {
        const fallback = user === "c" ? targets.C : targets.D;
        expect(routed("wake", inherited)).toEqual([{ ...targets[session], wake: true, fallback }]);
      }
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
  inherited: fc.option(origin),
  deliver: fc.constantFrom(...DELIVER_MODES),
});

test("a background child sends no progress and no typing to a user's channel, and its end at most once", () => {
  fc.assert(
    fc.property(request, (asked) => {
      const routed = resolveNotificationRouting(asked);
      const background = asked.mode === "run" && asked.parentSessionId !== null;
      expect(routed.kind).toBe(background ? "background" : "interactive");
      const channels = routed.targets.filter(({ kind }) => kind === "channel");
      expect(channels.length).toBeLessThanOrEqual(1);
      if (!background) return;
      expect(channels.some(isNotifiedOfChanges)).toBe(false);
      expect(routed.targets.some(canShowTyping)).toBe(false);
      const wakes = routed.targets.some((target) => target.kind === "session" && target.wake === true);
      if (wakes) expect(channels).toEqual([]);
    }),
  );
});

test("a chat that is named in a request is never left without a message", () => {
  fc.assert(
    fc.property(request, (asked) => {
      if (asked.origin !== null) expect(resolveNotificationRouting(asked).targets).not.toEqual([]);
    }),
  );
});

test("a target is added once, and then hears changes", () => {
  const { P, C, c } = targets;
  expect(addTarget([P], C)).toEqual([P, C]);
  expect(addTarget([P, c], C)).toEqual([P, C]);
  const both = [P, C];
  expect(addTarget(both, C)).toBe(both);
});

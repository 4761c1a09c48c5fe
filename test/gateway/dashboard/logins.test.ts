import { expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { Logins } from "../../../src/gateway/dashboard/logins.js";
import type { Requester } from "../../../src/sessions/requester.js";

const operator: Requester = { kind: "operator", actor: "operator" };

function fixture() {
  const clock = { now: 1_000_000 };
  return { clock, logins: new Logins([], () => clock.now) };
}

test("a link expires", () => {
  const { clock, logins } = fixture();
  const [early, late] = [logins.newLink(operator), logins.newLink(operator)];
  clock.now += defaults.dashboardLinkMs - 1;
  expect(logins.exchange(early.secret)).not.toBeNull();
  clock.now += 1;
  expect(logins.exchange(late.secret)).toBeNull();
});

test("a login expires, and without one the dashboard is not in use", () => {
  const { clock, logins } = fixture();
  const made = logins.exchange(logins.newLink(operator).secret);
  const find = () => logins.find(made?.cookie ?? "", made?.token ?? "");
  clock.now += defaults.dashboardLoginMs - 1;
  expect(find()).toEqual(made?.login);
  expect(logins.inUse).toBe(true);
  clock.now += 1;
  expect(find()).toBeNull();
  expect(logins.inUse).toBe(false);
});

test("only hashes are stored, and logins of a session's token are not stored at all", () => {
  const { clock, logins } = fixture();
  const kept = logins.exchange(logins.newLink(operator).secret);
  const session = { id: "ses_1", key: "one" } as Extract<Requester, { kind: "session" }>["session"];
  const isTokenValid = async () => true;
  logins.exchange(logins.newLink({ kind: "session", actor: "session:one", session, isTokenValid }).secret);
  const stored = JSON.stringify(logins.toStore());
  expect(JSON.parse(stored)).toHaveLength(1);
  expect(stored).not.toContain(kept?.cookie);
  expect(stored).not.toContain(kept?.token);
  const next = new Logins(JSON.parse(stored) as never, () => clock.now);
  expect(next.find(kept?.cookie ?? "", kept?.token ?? "")).toEqual(kept?.login);
});

test("the oldest links and logins make room for new ones", () => {
  const { logins } = fixture();
  const first = logins.newLink(operator);
  for (let at = 0; at < defaults.dashboardLinks; at++) logins.newLink(operator);
  expect(logins.exchange(first.secret)).toBeNull();
  const made = Array.from({ length: defaults.dashboardLogins + 1 }, () =>
    logins.exchange(logins.newLink(operator).secret),
  );
  const [oldest, second] = made.map((each) => logins.find(each?.cookie ?? "", each?.token ?? ""));
  expect(oldest).toBeNull();
  expect(second).not.toBeNull();
});

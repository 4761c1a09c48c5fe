import { expect, test } from "vitest";
import { parsePostgresUrl } from "../../src/config/postgres-url.js";

test.each([
  ["postgres://u:p@one:1,two:2/db", ["one:1", "two:2"]],
  ["postgresql://u@one,two:2/db?target_session_attrs=read-write", ["one", "two:2"]],
  ["postgres://u:a,b@one/db", ["one"]],
  ["postgres://u@[::1]:1,[fd00::7]/db", ["[::1]:1", "[fd00::7]"]],
  ["postgres://u@%2Frun%2Fpg,two/db", ["/run/pg", "two"]],
  ["postgres://u@localhost/db?host=/one,/two", ["/one", "/two"]],
  ["postgres:///db?host=one,two&port=1,2", ["one:1", "two:2"]],
  ["postgres://u@/db?host=one,two&port=7", ["one:7", "two:7"]],
  ["postgres://u@/db", ["localhost"]],
])("the hosts of %s are parsed as libpq parses them", (url, hosts) => {
  expect(parsePostgresUrl(url).hosts.map(({ name }) => name)).toEqual(hosts);
});

test("the label has no password; timeout and options are parsed", () => {
  expect(parsePostgresUrl("postgres://u:secret@one:1,two:2/db").label).toBe(
    "postgres database db at one:1,two:2",
  );
  const options = "options=-c%20work_mem%3D8MB%20--a.b%3Dx%5C%20y";
  expect(parsePostgresUrl(`postgres://u@one,two/db?connect_timeout=3&${options}`)).toMatchObject({
    connectMs: 3_000,
    settings: [
      ["work_mem", "8MB"],
      ["a.b", "x y"],
    ],
  });
});

test("an unsupported address is refused with the name of the part, and never with its password", () => {
  const refusals: Readonly<Record<string, string>> = {
    "postgres://u:hunter2@one/db?channel_binding=require": 'unsupported parameter "channel_binding"',
    "postgres://u:hunter2@one/db?sslmode=disable&hostaddr=1.2.3.4": 'unsupported parameter "hostaddr"',
    "postgres://u:hunter2@one,two/db?target_session_attrs=standby": "target_session_attrs",
    "postgres://u:hunter2@one,two/db?port=1,2,3": "3 ports for 2 hosts",
    "postgres://u:hunter2@one:99999/db": "port",
    "postgres://u:hunter2@one:x,two/db": "port",
    "postgres://u:hunter2@one/db?connect_timeout=forever": "connect_timeout",
    "postgres://u:hunter2@one/db?options=-x%20hunter2": '"options"',
    "postgres://u:hunter2@one/db?sslmode=hunter2": "sslmode",
    // Special characters of a password that were not escaped.
    "postgres://u:1?hunter2=3@one/db": "must look like",
    "postgres://u:1#hunter2@one/db": "must look like",
    "postgres://u:1/hunter2@one/db?x": "must look like",
    "postgres://u:1/hunter2@one/db": "must look like",
  };
  for (const [url, part] of Object.entries(refusals)) {
    expect(() => parsePostgresUrl(url), url).toThrow(part);
    expect(() => parsePostgresUrl(url), url).not.toThrow("hunter2");
  }
});

test("the TLS settings of an address are understood, and never weakened", () => {
  const modeOf = (mode: string): string | null =>
    new URL(
      parsePostgresUrl(`postgres://u@one/db?uselibpqcompat=true&sslmode=${mode}`).hosts[0]?.url ?? "",
    ).searchParams.toString();
  for (const mode of ["prefer", "require", "verify-ca", "verify-full"])
    expect(modeOf(mode)).toBe("sslmode=verify-full&host=one");
  for (const mode of ["disable", "no-verify"]) expect(modeOf(mode)).toBe(`sslmode=${mode}&host=one`);
  for (const mode of ["hunter2", "", "constructor"]) {
    expect(() => modeOf(mode)).toThrow("must be one of disable, no-verify, prefer");
    expect(() => modeOf(mode)).not.toThrow("hunter2");
  }
});

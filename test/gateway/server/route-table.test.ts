import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { contract, type Verb } from "../../../src/api/contract.js";
import { findRoute, requestTarget } from "../../../src/gateway/server/route-table.js";

const target = (url: string) => requestTarget({ method: "GET", url } as IncomingMessage);

test("every route of the contract is found by its method and path, with its decoded parameters", () => {
  for (const [verb, { method, path }] of Object.entries(contract)) {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");
    const filled = path.replaceAll(/\{\w+\}/g, "a%2Fb%20c");
    const found = findRoute(method, filled);
    expect(found?.entry.verb, path).toBe(verb as Verb);
    expect(found?.params).toEqual(Object.fromEntries(names.map((name) => [name, "a/b c"])));
    expect(findRoute(method, `${filled}/more`)?.entry.verb).not.toBe(verb);
    expect(findRoute("PATCH", filled)).toBeNull();
  }
});

test("a parameter that is not valid percent-encoding matches no route", () => {
  expect(findRoute("GET", "/v1/runs/%zz")).toBeNull();
});

test("a plain path and one that needs a URL parser have the same target", () => {
  for (const url of [
    "/v1/runs",
    "/v1/runs/run_1-a/poll",
    "/",
    "/v1//runs",
    "/v1/runs/../tasks",
    "/v1/r?a=1",
  ]) {
    const { pathname, searchParams } = new URL(url, "http://gateway");
    expect(target(url).pathname).toBe(pathname);
    expect([...target(url).searchParams]).toEqual([...searchParams]);
  }
  for (const url of ["//v1/runs", "http://gateway/v1/runs", "*"]) expect(() => target(url)).toThrow();
});

test("a long path of one kind of character is matched in linear time", () => {
  const began = performance.now();
  target(`/${"a".repeat(15_000)}!`);
  expect(performance.now() - began).toBeLessThan(1_000);
});

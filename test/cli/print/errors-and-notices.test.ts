import { expect, test } from "vitest";
import { firstError } from "../../../src/cli/print/errors-and-notices.js";

function failing(why: string): Disposable {
  return {
    [Symbol.dispose]() {
      throw new Error(why);
    },
  };
}

test("the first of several errors is reported", () => {
  const work = (): void => {
    using _first = failing("closed third");
    using _second = failing("closed second");
    throw new Error("began it");
  };
  let caught: unknown;
  try {
    work();
  } catch (error) {
    caught = error;
  }
  expect((caught as Error).message).not.toContain("began it");
  expect(firstError(caught)).toMatchObject({ message: "began it" });
  expect(firstError("no error at all")).toBe("no error at all");
});

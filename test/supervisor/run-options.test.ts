import { describe, expect, test } from "vitest";
import { BadInput } from "../../src/errors.js";
import { NO_LIMITS } from "../../src/model/run.js";
import { type AskedLimits, checkLimits } from "../../src/supervisor/check-options.js";

describe("requested limits", () => {
  test("are none if absent or null", () => {
    expect(checkLimits()).toEqual(NO_LIMITS);
    expect(checkLimits({})).toEqual(NO_LIMITS);
    expect(checkLimits({ memoryBytes: null, pids: undefined })).toEqual(NO_LIMITS);
  });

  test("are used unchanged within their range", () => {
    const least = { memoryBytes: 1024 ** 2, pids: 1, cpus: 0.01 };
    const most = { memoryBytes: 128 * 1024 ** 4, pids: 4_194_304, cpus: 4_096 };
    for (const limits of [least, most]) expect(checkLimits(limits)).toEqual(limits);
  });

  test.each<[unknown, RegExp]>([
    [{ memoryBytes: 0 }, /memoryBytes must be from 1 MiB to 128 TiB, not 0/],
    [{ memoryBytes: -1 }, /memoryBytes must be .* not -1/],
    [{ memoryBytes: 1024 ** 2 - 1 }, /memoryBytes must be/],
    [{ memoryBytes: 2 ** 53 }, /memoryBytes must be/],
    [{ memoryBytes: 2_000_000.5 }, /memoryBytes must be/],
    [{ memoryBytes: "64M" }, /memoryBytes must be .* not 64M/],
    [{ pids: 0 }, /pids must be a whole number from 1 to 4194304, not 0/],
    [{ pids: -5 }, /pids must be/],
    [{ pids: 1.5 }, /pids must be/],
    [{ pids: 4_194_305 }, /pids must be/],
    [{ cpus: 0 }, /cpus must be a number from 0.01 to 4096, not 0/],
    [{ cpus: 0.001 }, /cpus must be/],
    [{ cpus: Number.NaN }, /cpus must be .* not NaN/],
    [{ cpus: Infinity }, /cpus must be/],
    [{ cpus: 5_000 }, /cpus must be/],
    [{ memory: 5 }, /there is no limit "memory"; the limits are memoryBytes, pids and cpus/],
    [[], /limits must be an object/],
    ["64M", /limits must be an object, not "64M"/],
  ])("%j is refused, and says why", (asked, why) => {
    const refused = (): unknown => checkLimits(asked as AskedLimits);
    expect(refused).toThrow(BadInput);
    expect(refused).toThrow(why);
  });
});

import {
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import type { World } from "../world/world.js";
import type { Fault } from "./fault.js";

const CHUNK = Buffer.alloc(1024 * 1024);

export const storageFaults: readonly Fault[] = [
  {
    name: "full disk",
    weight: 3,
    isPossible: ({ ownDisk }) => ownDisk,
    async inject({ world, works, during }) {
      for (const work of works) work.allow({ short: true });
      const ballast = join(world.directory, "ballast");
      fillDisk(ballast);
      try {
        await during(300);
      } finally {
        rmSync(ballast);
      }
      return true;
    },
  },
  {
    name: "locked store",
    weight: 3,
    isPossible: ({ store }) => store === "SQLite",
    async inject({ world, during }) {
      const db = new DatabaseSync(join(world.home, "store.sqlite"), { timeout: 2_000 });
      try {
        db.exec("begin immediate");
        await during(500);
        db.exec("rollback");
      } finally {
        db.close();
      }
      return true;
    },
  },
  {
    name: "damaged store",
    weight: 1,
    isPossible: ({ store }) => store === "SQLite",
    async inject({ world, during }) {
      await world.killGateway();
      const saved = copyStore(world);
      // Both, because the log has pages that replace those of the database.
      for (const name of ["store.sqlite", "store.sqlite-wal"].filter((each) => saved.includes(each))) {
        const file = openSync(join(world.home, name), "r+");
        writeSync(file, Buffer.alloc(4_096, 0x55), 0, 4_096, 0);
        closeSync(file);
      }
      const refused = await world.startGateway().then(
        () => "it started",
        () => null,
      );
      if (refused !== null) throw new Error("wrong end: a gateway started on a damaged store");
      await during(100);
      restoreStore(world, saved);
      await world.startGateway();
      return true;
    },
  },
  {
    name: "slow disk",
    weight: 3,
    isPossible: ({ canSlowDisk }) => canSlowDisk,
    async inject({ world, random, during }) {
      const file = join(world.directory, "slow-disk");
      writeFileSync(file, String(random.between(1, 30)));
      try {
        await during(400);
      } finally {
        rmSync(file);
      }
      return true;
    },
  },
  {
    name: "deleted socket of anchor",
    weight: 2,
    suits: ({ runDirectory }) => runDirectory !== null && existsSync(join(runDirectory, "sock")),
    async inject({ victim }) {
      rmSync(join(victim?.runDirectory ?? "", "sock"), { force: true });
      return true;
    },
  },
  {
    name: "deleted spool",
    weight: 2,
    suits: ({ kind, runDirectory }) => kind !== "turn" && runDirectory !== null && existsSync(runDirectory),
    async inject({ victim }) {
      victim?.allow({ short: true });
      const directory = victim?.runDirectory ?? "";
      const files = readdirSync(directory).filter((name) => name.startsWith("stdout."));
      for (const name of files) rmSync(join(directory, name), { force: true });
      return files.length > 0;
    },
  },
  {
    name: "deleted socket of gateway",
    weight: 2,
    async inject({ world, during }) {
      const path = join(world.home, "gateway.sock");
      if (!existsSync(path)) return false;
      rmSync(path, { force: true });
      // It makes another within two seconds.
      await during(100);
      return true;
    },
  },
  {
    name: "deleted socket of launcher",
    weight: 2,
    async inject({ world }) {
      const path = join(world.instanceDirectory, "launcher.sock");
      if (!existsSync(path)) return false;
      rmSync(path, { force: true });
      return true;
    },
  },
];

function fillDisk(path: string): void {
  const file = openSync(path, "w");
  try {
    for (let chunk = CHUNK; chunk.length > 0;)
      try {
        if (writeSync(file, chunk) < chunk.length) chunk = chunk.subarray(0, chunk.length >> 1);
      } catch {
        chunk = chunk.subarray(0, chunk.length >> 1);
      }
  } finally {
    closeSync(file);
  }
}

function storeFiles(world: World): string[] {
  return readdirSync(world.home).filter((name) => name.startsWith("store.sqlite"));
}

function copyStore(world: World): string[] {
  const names = storeFiles(world).filter((name) => statSync(join(world.home, name)).isFile());
  for (const name of names) copyFileSync(join(world.home, name), join(world.directory, `saved-${name}`));
  return names;
}

function restoreStore(world: World, saved: readonly string[]): void {
  for (const name of storeFiles(world)) rmSync(join(world.home, name), { force: true });
  for (const name of saved) copyFileSync(join(world.directory, `saved-${name}`), join(world.home, name));
}

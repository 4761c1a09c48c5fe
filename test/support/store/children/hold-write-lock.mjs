// Holds the write lock of the database until it is killed, or for a number of milliseconds.
import { DatabaseSync } from "@photostructure/sqlite";

const [path, holdMs] = process.argv.slice(2);
const db = new DatabaseSync(path);
db.exec("begin immediate");
process.send("locked");
process.on("message", () => db.close());
if (holdMs !== undefined) setTimeout(() => process.disconnect(db.close()), Number(holdMs));

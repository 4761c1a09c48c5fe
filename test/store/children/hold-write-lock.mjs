// Holds the database's write lock until it is killed.
import { DatabaseSync } from "@photostructure/sqlite";

const [path] = process.argv.slice(2);
const db = new DatabaseSync(path);
db.exec("begin immediate");
process.send("locked");
process.on("message", () => db.close());

import { crashMatrix } from "./crash-matrix.js";
import { sqliteRecords } from "./records.js";

crashMatrix("the state directory", async () => sqliteRecords);

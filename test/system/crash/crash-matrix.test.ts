import { crashMatrix } from "./crash-matrix.js";
import { sqliteRecords } from "../../support/supervisor/record-access.js";

crashMatrix("the state directory", async () => sqliteRecords);

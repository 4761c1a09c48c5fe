import { crashMatrix } from "./crash-matrix.js";
import { ownFile } from "./records.js";

crashMatrix("the state directory", async () => ownFile);

// Checks an anchor binary for a package by reading its headers, because the loaders of other platforms are not here:
// format, processor, what it loads when it starts, the protections that it asks for, its size.
//
// Usage: check-binary.mjs <file> <target> [--glibc]     e.g. check-binary.mjs build/anchor-win32-x64.exe win32-x64

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Well above the largest today; a libc that is linked in whole, or debug information, exceeds it. */
const MAX_BYTES = 400 * 1024;
const MAX_BYTES_WITH_GLIBC = 2 * 1024 * 1024;

const CHECKS = { linux: elfProblems, win32: peProblems, darwin: machoProblems };

/** The libraries of Windows 10 and newer, without one to install. `api-ms-win-crt-*` is its C runtime. */
const WINDOWS_LIBRARIES =
  /^(kernel32|ntdll|advapi32|ws2_32|iphlpapi|psapi|bcrypt|shell32|api-ms-win-crt-[\w-]+)\.dll$/i;
const MAC_LIBRARY = "/usr/lib/libSystem.B.dylib";

/**
 * Returns what is wrong with the binary for a target such as linux-x64; nothing if it can be packed. A binary of Debian's
 * gcc, for tests, contains glibc, which does not work everywhere when it is linked statically.
 */
export function binaryProblems(path, target, { glibc = false } = {}) {
  const [system, cpu] = target.split("-");
  const file = readFileSync(path);
  const problems = [];
  const maxBytes = glibc ? MAX_BYTES_WITH_GLIBC : MAX_BYTES;
  if (file.length > maxBytes) problems.push(`${file.length} bytes are more than ${maxBytes}`);
  if (!glibc && file.includes("GNU C Library")) problems.push("contains glibc");
  try {
    problems.push(...CHECKS[system](file, cpu));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    problems.push("its headers point outside of the file");
  }
  return problems.map((problem) => `${path} for ${target}: ${problem}`);
}

/** https://refspecs.linuxfoundation.org/elf/elf.pdf */
function elfProblems(file, cpu) {
  if (file.readUInt32BE(0) !== 0x7f454c46) return ["is not an ELF file"];
  const machine = { x64: 62, arm64: 183 }[cpu];
  const problems = [];
  if (file[4] !== 2 || file.readUInt16LE(18) !== machine) problems.push("is for another processor");
  const [start, size, count] = [
    Number(file.readBigUInt64LE(32)),
    file.readUInt16LE(54),
    file.readUInt16LE(56),
  ];
  const segments = Array.from({ length: count }, (_, at) => start + at * size).map((at) => ({
    type: file.readUInt32LE(at),
    flags: file.readUInt32LE(at + 4),
  }));
  const INTERPRETER = 3;
  const STACK = 0x6474e551;
  if (segments.some(({ type }) => type === INTERPRETER))
    problems.push("is linked dynamically: it depends on the libc of the machine that built it");
  const stack = segments.find(({ type }) => type === STACK);
  if (stack === undefined || (stack.flags & 1) !== 0) problems.push("has an executable stack");
  return problems;
}

/** https://learn.microsoft.com/windows/win32/debug/pe-format */
function peProblems(file, cpu) {
  if (file.toString("latin1", 0, 2) !== "MZ") return ["is not a Windows program"];
  const header = file.readUInt32LE(0x3c);
  if (file.toString("latin1", header, header + 4) !== "PE\0\0") return ["is not a Windows program"];
  const machine = { x64: 0x8664, arm64: 0xaa64 }[cpu];
  const optional = header + 24;
  const problems = [];
  if (file.readUInt16LE(header + 4) !== machine || file.readUInt16LE(optional) !== 0x20b)
    problems.push("is for another processor");
  // High-entropy addresses, relocatable, no execution of data.
  const protections = 0x20 | 0x40 | 0x100;
  if ((file.readUInt16LE(optional + 70) & protections) !== protections)
    problems.push("does not ask for random addresses and data that cannot be executed");
  if (file.readUInt32LE(optional + 112) !== 0) problems.push("exports symbols");
  const offsetOf = sectionReader(file, header, optional);
  const libraries = [];
  for (let at = offsetOf(file.readUInt32LE(optional + 120)); file.readUInt32LE(at + 12) !== 0; at += 20)
    libraries.push(textAt(file, offsetOf(file.readUInt32LE(at + 12))));
  if (libraries.length === 0) problems.push("loads no library at all");
  const unknown = libraries.filter((name) => !WINDOWS_LIBRARIES.test(name));
  if (unknown.length > 0) problems.push(`loads libraries that Windows may not have: ${unknown.join(", ")}`);
  return problems;
}

/** Returns the offset in the file of an address in memory. */
function sectionReader(file, header, optional) {
  const table = optional + file.readUInt16LE(header + 20);
  const sections = Array.from({ length: file.readUInt16LE(header + 6) }, (_, at) => table + at * 40).map(
    (at) => ({
      size: file.readUInt32LE(at + 8),
      address: file.readUInt32LE(at + 12),
      offset: file.readUInt32LE(at + 20),
    }),
  );
  return (address) => {
    const section = sections.find((one) => address >= one.address && address < one.address + one.size);
    if (section === undefined) throw new RangeError(`no section has ${address}`);
    return section.offset + address - section.address;
  };
}

/** https://github.com/apple-oss-distributions/xnu/blob/main/EXTERNAL_HEADERS/mach-o/loader.h */
function machoProblems(file, cpu) {
  if (file.readUInt32LE(0) !== 0xfeedfacf) return ["is not a 64-bit Mach-O file"];
  const EXECUTABLE = 2;
  const PIE = 0x200000;
  const problems = [];
  if (file.readUInt32LE(4) !== { x64: 0x01000007, arm64: 0x0100000c }[cpu])
    problems.push("is for another processor");
  if (file.readUInt32LE(12) !== EXECUTABLE) problems.push("is not a program");
  if ((file.readUInt32LE(24) & PIE) === 0) problems.push("does not ask for random addresses");
  const LOAD_DYLIB = 0xc;
  const CODE_SIGNATURE = 0x1d;
  const BUILD_VERSION = 0x32;
  const commands = [];
  for (let at = 32, left = file.readUInt32LE(16); left > 0; left -= 1) {
    commands.push({ at, kind: file.readUInt32LE(at) });
    at += file.readUInt32LE(at + 4);
  }
  const libraries = commands
    .filter(({ kind }) => kind === LOAD_DYLIB)
    .map(({ at }) => textAt(file, at + file.readUInt32LE(at + 8)));
  if (libraries.length !== 1 || libraries[0] !== MAC_LIBRARY)
    problems.push(`loads ${libraries.join(", ") || "nothing"} instead of ${MAC_LIBRARY}`);
  const version = commands.find(({ kind }) => kind === BUILD_VERSION);
  const oldest = version === undefined ? null : file.readUInt32LE(version.at + 12) >> 16;
  if (oldest === null || oldest > 11) problems.push("is not for macOS 11");
  // macOS ends a program for arm64 without a signature, if only an ad-hoc one, when it starts.
  if (cpu === "arm64" && !commands.some(({ kind }) => kind === CODE_SIGNATURE))
    problems.push("is not signed");
  return problems;
}

function textAt(file, at) {
  return file.toString("latin1", at, file.indexOf(0, at));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [path, target, option] = process.argv.slice(2);
  const problems = binaryProblems(path, target, { glibc: option === "--glibc" });
  if (problems.length > 0) console.error(problems.join("\n"));
  process.exitCode = problems.length > 0 ? 1 : 0;
}

// Bundle the page and the one-file player into the package, with the licences of what is in them.
import { build, context } from "esbuild";
import { createHash } from "node:crypto";
import { cp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const STAMP = "build.json";
const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../src/pomp/studio/static");
const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
  metafile: true,
};
const page = {
  ...common,
  entryPoints: { studio: "src/studio.jsx" },
  outdir: target,
  format: "esm",
  splitting: true,
  chunkNames: "part-[hash]",
};
const player = {
  ...common,
  entryPoints: { player: "src/player.jsx" },
  outdir: target,
  format: "iife",
};

/** The name of the npm package that a bundled file belongs to, or null for our own. */
function packageOf(file) {
  const found = file.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/);
  return found && found[1];
}

/** Every bundled package with its version and the text of its licence. */
async function licences(outputs) {
  const files = outputs.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const names = [...new Set(files.map(packageOf).filter(Boolean))].sort();
  const parts = await Promise.all(
    names.map(async (name) => {
      const folder = join(here, "node_modules", name);
      const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
      const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
      const text = file ? (await readFile(join(folder, file), "utf8")).trim() : OWN_TEXTS[name];
      if (!text) throw new Error(`${name} has no licence text`);
      return `${name} ${version} (${license})\n${"-".repeat(72)}\n${text}\n`;
    }),
  );
  const head = "The scripts in this folder are built from web/ and contain these packages.\n\n";
  return head + parts.join("\n\n");
}

/** Licence texts of packages that name a licence but do not carry its text. */
const OWN_TEXTS = {};

/** Delete what an earlier build left that this one did not write. */
async function sweep(outputs) {
  const written = outputs.flatMap(({ metafile }) => Object.keys(metafile.outputs));
  const kept = new Set(written.map((file) => relative(target, join(here, file))));
  for (const file of await readdir(target))
    if (/^part-.*\.(js|css)$/.test(file) && !kept.has(file)) await rm(join(target, file));
}

/** The digest of files, given by their paths below a folder: tests/studio/test_build.py repeats it. */
async function digestOf(folder, names) {
  const hash = createHash("sha256");
  for (const name of [...names].sort())
    hash
      .update(`${name}\0`)
      .update(await readFile(join(folder, name)))
      .update("\0");
  return hash.digest("hex");
}

/** What was built from what, so that a change of one without the other is noticed. */
async function stamp() {
  const below = async (folder) =>
    (await readdir(join(here, folder))).map((name) => `${folder}/${name}`);
  const single = ["build.mjs", "package-lock.json"];
  const sources = await digestOf(here, [
    ...(await below("src")),
    ...(await below("public")),
    ...single,
  ]);
  const files = (await readdir(target)).filter((name) => name !== STAMP);
  const told = { sources, built: await digestOf(target, files) };
  await writeFile(join(target, STAMP), `${JSON.stringify(told, null, 2)}\n`);
}

if (process.argv.includes("--watch")) {
  for (const options of [page, player]) await (await context(options)).watch();
} else {
  const outputs = [await build(page), await build(player)];
  await sweep(outputs);
  await cp(join(here, "public"), target, { recursive: true });
  await writeFile(join(target, "LICENCES.txt"), await licences(outputs));
  await stamp();
  for (const { metafile } of outputs)
    for (const [file, { bytes }] of Object.entries(metafile.outputs))
      console.log(`${(bytes / 1000).toFixed(1).padStart(8)} kB  ${file}`);
}

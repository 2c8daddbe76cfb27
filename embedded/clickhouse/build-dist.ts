/**
 * Builds `dist/` of the npm package: the sources as JavaScript, in the same folders. `npm pack` runs it (`prepack`) and
 * removes the folder afterwards.
 *
 *     node build-dist.ts [FOLDER]
 *
 * Types are blanked out by what also runs the sources, so lines and columns of a stack trace are those of the sources.
 */
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import path from 'node:path'

const ROOT = import.meta.dirname

/** Only the work on the sources needs these. */
const LEFT_OUT = /\.(test|bench)\.ts$|^(testing|dist|node_modules)\/|^build-dist\.ts$/

/** An import of a file of the package, where the code stands as the linter wants it. */
const IMPORT = /((?:\bfrom|\bimport) |\bimport\()'(\.[^']*)\.ts'/g

/** Replaces the folder; returns the paths of its files. */
export function buildDist (target: string): string[] {
  rmSync(target, { recursive: true, force: true })
  const sources = globSync('**/*.{ts,txt}', { cwd: ROOT }).filter((file) => !LEFT_OUT.test(file))
  for (const file of [...sources, 'package.json']) {
    const written = path.join(target, file.replace(/\.ts$/, '.js'))
    mkdirSync(path.dirname(written), { recursive: true })
    if (!file.endsWith('.ts')) copyFileSync(path.join(ROOT, file), written)
    else writeFileSync(written, toJavaScript(readFileSync(path.join(ROOT, file), 'utf8')))
  }
  return sources
}

function toJavaScript (source: string): string {
  return stripTypeScriptTypes(source.replaceAll(IMPORT, "$1'$2.js'"))
}

if (import.meta.main) {
  const target = path.resolve(process.argv[2] ?? path.join(ROOT, 'dist'))
  process.stderr.write(`built ${buildDist(target).length} files in ${path.relative('.', target)}\n`)
}

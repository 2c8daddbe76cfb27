/**
 * Builds `dist/` of the npm package: the sources as JavaScript, in the same folders. Node refuses TypeScript below
 * `node_modules`, so what package.json exports points there, too. `npm pack` runs it before (`prepack`) and after.
 *
 *     node build-dist.ts [--remove]     # --remove: all is as it was
 *
 * Types are blanked out by what also runs the sources, so lines and columns of a stack trace are those of the sources.
 */
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import path from 'node:path'

const ROOT = import.meta.dirname
const DIST = path.join(ROOT, 'dist')
const MANIFEST = path.join(ROOT, 'package.json')

/** Only the work on the sources needs these. */
const LEFT_OUT = /\.(test|bench)\.ts$|^(testing\/fuzz|dist|node_modules)\/|^build-dist\.ts$/

/** An import of a file of the package, where the code stands as the linter wants it. */
const IMPORT = /((?:\bfrom|\bimport) |\bimport\()'(\.[^']*)\.ts'/g

rmSync(DIST, { recursive: true, force: true })
const manifest = readFileSync(MANIFEST, 'utf8').replaceAll(/"\.\/dist\/([^"]+)\.js"/g, '"./$1.ts"')
if (process.argv.includes('--remove')) {
  writeFileSync(MANIFEST, manifest)
} else {
  for (const file of globSync('**/*.{ts,txt}', { cwd: ROOT }).filter((file) => !LEFT_OUT.test(file))) copy(file)
  writeFileSync(path.join(DIST, 'package.json'), manifest)
  writeFileSync(MANIFEST, manifest.replaceAll(/"\.\/([^"]+)\.ts"/g, '"./dist/$1.js"'))
}

function copy (file: string): void {
  const written = path.join(DIST, file.replace(/\.ts$/, '.js'))
  mkdirSync(path.dirname(written), { recursive: true })
  if (!file.endsWith('.ts')) copyFileSync(path.join(ROOT, file), written)
  else writeFileSync(written, stripTypeScriptTypes(readFileSync(path.join(ROOT, file), 'utf8').replaceAll(IMPORT, "$1'$2.js'")))
}

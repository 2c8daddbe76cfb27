/**
 * Builds `dist/` of the npm package: the sources as JavaScript, in the same folders, beside the files that they read.
 * `npm pack` runs it (`prepack`) and removes the folder afterwards.
 *
 *     node deploy/build-package.ts [FOLDER]     # default: dist
 *
 * Node refuses TypeScript below node_modules. So types are blanked out, by what also runs the sources here; lines and
 * columns stay, and a stack trace of the package is one of the sources. Imports get the ending `.js`; what comes from
 * chdb-server, which is in no registry, gets its path. Of the pages of the console there is what they are bundled to.
 */
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import path from 'node:path'
import ts from 'typescript'
import { readCommit } from '../schema/version.ts'
import { BUNDLED, bundleConsole } from '../console/server/bundle-assets.ts'

const ROOT = path.join(import.meta.dirname, '..')
const SOURCES = [
  'api', 'chdb-server', 'cli', 'console', 'deploy/clickhouse', 'deploy/postgres', 'docs/query/queries', 'embedded', 'engines', 'ingest', 'pipeline', 'platform', 'schema'
]

const SERVER: { name: string, exports: Record<string, string> } =
  JSON.parse(readFileSync(path.join(ROOT, 'chdb-server/package.json'), 'utf8'))

/**
 * Only tests, benchmarks and the work on the sources need these, and what the pages of the console are bundled from.
 * Plain scripts that choose between sources and `dist/` stay outside.
 */
const LEFT_OUT = /\.(test|bench)\.ts$|^chdb-server\/(build-dist\.ts|chdb-server\.js|dist\/.*|node_modules\/.*)$|\.d\.ts$|\.md$|(^|\/)tsconfig\.json$|(^|\/)(testing|generate-[\w-]+\.ts)(\/|$)|^cli\/millrace\.js$|^console\/web\//

/** Replaces the folder; returns the paths of its files. */
export function buildPackage (target: string): string[] {
  rmSync(target, { recursive: true, force: true })
  const { name, version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as Record<string, string>
  const files = SOURCES.flatMap((folder) => globSync(`${folder}/**/*`, { cwd: ROOT, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(ROOT, path.join(entry.parentPath, entry.name)))
    .filter((file) => !LEFT_OUT.test(file))
  const written = files.map((file) => copy(file, target))
  // What the sources read of package.json, one folder above them as ever.
  const manifest = { name, version, commit: readCommit(), type: 'module' }
  writeFileSync(path.join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  return [...written, 'package.json']
}

function copy (file: string, target: string): string {
  const isSource = file.endsWith('.ts')
  const name = isSource ? file.replace(/\.ts$/, '.js') : file
  mkdirSync(path.join(target, path.dirname(name)), { recursive: true })
  const read = (): string => readFileSync(path.join(ROOT, file), 'utf8')
  if (isSource) writeFileSync(path.join(target, name), toJavaScript(read(), path.dirname(file)))
  else copyFileSync(path.join(ROOT, file), path.join(target, name))
  return name
}

/** The source without its types; `./a.ts` in an import becomes `./a.js`. */
export function toJavaScript (source: string, folder: string): string {
  let text = source
  for (const { fileName, pos } of ts.preProcessFile(source, true, true).importedFiles.toReversed()) {
    const imported = fileName.startsWith(SERVER.name) ? findExport(fileName, folder) : fileName
    if (!/^\..*\.ts$/.test(imported)) continue
    const start = source.indexOf(fileName, pos)
    text = `${text.slice(0, start)}${imported.slice(0, -3)}.js${text.slice(start + fileName.length)}`
  }
  return stripTypeScriptTypes(text)
}

/** `chdb-server/sql-lexer` for a file in a folder: `../chdb-server/statement/sql-lexer.ts`. */
function findExport (name: string, folder: string): string {
  const exported = SERVER.exports[name.replace(SERVER.name, '.')]
  return exported === undefined ? name : path.relative(folder, path.join(SERVER.name, exported))
}

if (import.meta.main) {
  const target = path.resolve(process.argv[2] ?? path.join(ROOT, 'dist'))
  const files = buildPackage(target)
  writeFileSync(path.join(target, BUNDLED), JSON.stringify(await bundleConsole()))
  process.stderr.write(`built ${files.length + 1} files in ${path.relative('.', target)}\n`)
}

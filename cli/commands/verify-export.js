/**
 * Proves from the files of an export alone that none was changed, and that no window and no revision is missing. Plain
 * JavaScript for Node 22, to be copied to where the files are:
 *
 *     node verify-export.js FOLDER [SHA256]
 *
 * A manifest has the SHA-256 of its files and of the manifest before it: a chain whose last hash you know (SHA256) is
 * the one that was written.
 */
import { createHash } from 'node:crypto'
import { createReadStream, globSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { pathToFileURL } from 'node:url'

/**
 * @param {string} root  A folder with exported tables, at any depth.
 * @param {string} [last]  SHA-256 of the last manifest of one of them.
 */
export async function verifyExport (root, last) {
  const problems = /** @type {string[]} */ ([])
  const manifests = globSync('**/date=*/**/r*.manifest.json', { cwd: root }).flatMap((file) => {
    const content = readFileSync(path.join(root, file))
    const table = file.startsWith('date=') ? '.' : file.split(`${path.sep}date=`)[0]
    try {
      const manifest = JSON.parse(content.toString())
      // Throws unless each of them is text.
      path.join(manifest.window.from, ...manifest.files.map(({ name }) => name))
      return [{ ...manifest, file, table, sha256: createHash('sha256').update(content).digest('hex') }]
    } catch {
      problems.push(`${file}: is not a manifest`)
      return []
    }
  }).sort((a, b) => a.sequence - b.sequence)
  if (manifests.length === 0) problems.push('there is no manifest in the folder')
  const [tables, known] = [[], new Set()]
  for (const [table, chain] of Object.entries(Object.groupBy(manifests, ({ table }) => table))) {
    checkChain(chain, problems)
    const newest = checkWindows(chain, problems)
    const named = newest.flatMap(({ file, files }) =>
      files.map((facts) => ({ ...facts, file: path.join(path.dirname(file), facts.name) })))
    for (const facts of named) await checkFile(root, facts, problems)
    for (const { file } of named) known.add(file)
    const rows = newest.reduce((sum, manifest) => sum + manifest.rows, 0)
    tables.push({ table, windows: newest.length, files: named.length, rows, last_manifest_sha256: chain.at(-1).sha256 })
  }
  // Wherever a query over the folder would read it, also of a table without manifests.
  for (const file of globSync('**/*.parquet', { cwd: root })) {
    if (!known.has(path.normalize(file))) problems.push(`${file}: not in the newest manifest of its window`)
  }
  if (last !== undefined && !tables.some(({ last_manifest_sha256: sha256 }) => sha256 === last)) {
    problems.push(`no chain ends with ${last}`)
  }
  return { problems, tables }
}

function checkChain (chain, problems) {
  chain.forEach(({ file, sequence, previous }, index) => {
    if (sequence !== index + 1) problems.push(`${file}: has position ${sequence} in the chain, in place of ${index + 1}`)
    if (previous !== (chain[index - 1]?.sha256 ?? null)) problems.push(`${file}: does not follow ${chain[index - 1]?.file ?? 'nothing'}`)
  })
}

/** Returns the newest manifest of each window, in order. */
function checkWindows (chain, problems) {
  const windows = Object.entries(Object.groupBy(chain, ({ window }) => window.from)).sort(([a], [b]) => a < b ? -1 : 1)
  const newest = windows.map(([from, all]) => {
    const revisions = all.sort((a, b) => a.revision - b.revision)
    if (revisions.some(({ revision }, index) => revision !== index)) problems.push(`${all[0].file}: a revision of the window ${from} is missing`)
    return revisions.at(-1)
  })
  newest.slice(1).forEach(({ file, window }, index) => {
    const { to } = newest[index].window
    if (to !== window.from) problems.push(`${file}: the windows from ${to} to ${window.from} are missing`)
  })
  return newest
}

async function checkFile (root, { file, bytes, sha256 }, problems) {
  try {
    const hash = createHash('sha256')
    await pipeline(createReadStream(path.join(root, file)), hash)
    if (statSync(path.join(root, file)).size !== bytes || hash.digest('hex') !== sha256) problems.push(`${file}: was changed`)
  } catch (error) {
    problems.push(`${file}: ${error.code === 'ENOENT' ? 'is missing' : `cannot be read (${error.code})`}`)
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { problems, tables } = await verifyExport(process.argv[2] ?? '.', process.argv[3])
  for (const table of tables) console.log(JSON.stringify(table))
  for (const problem of problems) console.log(problem)
  process.exitCode = problems.length === 0 ? 0 : 1
}

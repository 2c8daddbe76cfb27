import { execFile } from 'node:child_process'
import { access, chmod, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** apt looks for these itself for its own sources; a list of ours has to name one. */
const KEYRINGS = ['/usr/share/keyrings/debian-archive-keyring.gpg', '/usr/share/keyrings/debian-archive-keyring.pgp']

export interface DebianPackage {
  name: string
  /** Releases of Debian that have it, the best first. */
  suites: readonly string[]
  /** Path of a program in the package, and where it is to be put. */
  files: Readonly<Record<string, string>>
  signal?: AbortSignal | undefined
}

/** An index is 10 MB, a package 5 MB; three seconds on a good line. */
const COMMAND_TIMEOUT_MS = 90_000

/**
 * Unpacks programs from a package of a Debian that may be newer than this one, taken from the mirror this machine uses
 * already. Needs no root and installs nothing: apt works in a folder of its own, and the signatures are checked as
 * always.
 *
 * Two processes may do so at once: each works in its own folder, and a program appears by a rename.
 *
 * @throws when apt is missing, or no mirror has the package; the message lists what was tried.
 */
export async function fetchDebianPackage ({ name, suites, files, signal }: DebianPackage): Promise<void> {
  const folder = path.dirname(Object.values(files)[0]!)
  await mkdir(folder, { recursive: true })
  const work = await mkdtemp(path.join(folder, '.fetch-'))
  try {
    const apt = await prepareApt(work)
    const mirrors = await findMirrors(apt, signal)
    if (mirrors.length === 0) throw new Error('apt has no source of Debian packages')
    const failures: string[] = []
    for (const suite of suites) {
      for (const mirror of mirrors) {
        try {
          const unpacked = await unpackFrom(work, apt, { name, source: `${mirror} ${suite} main`, signal })
          for (const [file, target] of Object.entries(files)) {
            await chmod(path.join(unpacked, file), 0o755)
            await rename(path.join(unpacked, file), target)
          }
          return
        } catch (error) {
          signal?.throwIfAborted()
          failures.push(`${mirror} ${suite}: ${firstLine(error)}`)
        }
      }
    }
    throw new Error(failures.join('\n'))
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/** Options that keep apt away from the state of the machine. */
async function prepareApt (work: string): Promise<string[]> {
  const state = path.join(work, 'state')
  const cache = path.join(work, 'cache')
  const status = path.join(work, 'status')
  await mkdir(path.join(state, 'lists', 'partial'), { recursive: true })
  await mkdir(path.join(cache, 'archives', 'partial'), { recursive: true })
  await writeFile(status, '')
  return [
    `Dir::State=${state}`, `Dir::State::status=${status}`, `Dir::Cache=${cache}`,
    // The sandbox user of apt cannot enter a folder below a private home.
    'APT::Sandbox::User=root', 'Acquire::Languages=none', 'Acquire::Retries=2', 'Acquire::http::Timeout=20'
  ].flatMap((option) => ['-o', option])
}

/** The mirrors of Debian's main archive among the configured sources, whatever their file format. */
async function findMirrors (apt: readonly string[], signal: AbortSignal | undefined): Promise<string[]> {
  const { stdout } = await run('apt-get', ['update', '--print-uris', ...apt], { timeout: COMMAND_TIMEOUT_MS, signal })
  const indexes = stdout.matchAll(/^'(\S+?)dists\/([\w-]+)\/InRelease'/gm)
  const mirrors = [...indexes].filter(([, , suite]) => !suite?.includes('-')).map(([, mirror]) => mirror ?? '')
  return [...new Set(mirrors)]
}

async function unpackFrom (
  work: string, apt: readonly string[],
  { name, source, signal }: { name: string, source: string, signal: AbortSignal | undefined }
): Promise<string> {
  const folder = await mkdtemp(path.join(work, 'package-'))
  const list = path.join(folder, 'millrace.list')
  const keyring = await findKeyring()
  await writeFile(list, `deb ${keyring === undefined ? '' : `[signed-by=${keyring}] `}${source}\n`)
  const options = [...apt, '-o', `Dir::Etc::sourcelist=${list}`, '-o', 'Dir::Etc::sourceparts=/dev/null']
  const execution = { cwd: folder, timeout: COMMAND_TIMEOUT_MS, signal }
  await run('apt-get', ['-q', 'update', '-o', 'APT::Update::Error-Mode=any', ...options], execution)
  await run('apt-get', ['-q', 'download', name, ...options], execution)
  const archive = (await readdir(folder)).find((file) => file.endsWith('.deb'))
  if (archive === undefined) throw new Error('apt downloaded nothing')
  await run('dpkg', ['-x', archive, 'unpacked'], execution)
  return path.join(folder, 'unpacked')
}

async function findKeyring (): Promise<string | undefined> {
  for (const keyring of KEYRINGS) {
    if (await access(keyring).then(() => true, () => false)) return keyring
  }
  return undefined
}

function firstLine (error: unknown): string {
  const { stderr, message } = error as { stderr?: string, message?: string }
  return (stderr?.match(/^E: .*$/m)?.[0] ?? message ?? String(error)).split('\n')[0] ?? ''
}

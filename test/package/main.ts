/**
 * `npm run check:package`: packs, installs with npm into an empty folder, and uses the installed package.
 *
 *     npm run check:package                  # from npm's cache where it has the packages; takes a minute
 *     npm run check:package -- --cold        # nothing in any cache: fetches 250 MB, and nats-server from Debian
 *     npm run check:package -- --user 65534  # root only: all of it as this user
 *
 * `package.system.test.ts` does the same in `npm test`, with the dependencies of the clone.
 */
import { execFileSync } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Command } from 'commander'
import { readCount } from '../../cli/read-arguments.ts'
import { withoutSettings } from '../support/environments.ts'
import { findMachineNode, packPackage, type PackageUser, tryFirstSession } from './installed-package.ts'

const { cold, user: uid } = new Command('check:package')
  .option('--cold', 'start with empty caches of npm and Millrace')
  .option('--user <uid>', 'install and run as this user; needs root', readCount)
  .parse().opts<{ cold?: true, user?: number }>()

const folder = mkdtempSync(path.join(tmpdir(), 'millrace-package-'))
try {
  const packed = await packPackage(folder)
  print(`packed ${path.basename(packed)}, ${Math.round(statSync(packed).size / 1000)} kB`)
  const user = await createUser()
  install(packed, user)
  const { rows, printed } = await tryFirstSession(['npx', 'millrace', 'start'], user)
  print(printed.trim())
  print(`rows that an SDK sent: ${JSON.stringify(rows)}`)
  // npx ends by the signal, whatever the exit code of Millrace is.
  process.exitCode = rows.length === 1 && printed.endsWith('Stopped\n') ? 0 : 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** With the Node and npm of the machine, and without anything of this clone on PATH. */
async function createUser (): Promise<PackageUser> {
  const app = mkdtempSync(path.join(folder, 'app-'))
  const isHome = cold === true || uid !== undefined
  for (const each of uid === undefined ? [] : [folder, app]) chownSync(each, uid!, uid!)
  const withoutClone = (process.env.PATH ?? '').split(path.delimiter).filter((each) => !each.includes('node_modules'))
  const PATH = [path.dirname(await findMachineNode()), ...withoutClone].join(path.delimiter)
  const { NODE_COMPILE_CACHE: _, XDG_CACHE_HOME: __, ...env } = withoutSettings(process.env)
  const inherited = Object.entries(env).filter(([name]) => !/^npm_(package|lifecycle|command|node|execpath)/.test(name))
  return {
    folder: app,
    env: { ...Object.fromEntries(inherited), PATH, ...isHome ? { HOME: folder, npm_config_cache: path.join(folder, 'npm') } : {} },
    ...uid === undefined ? {} : { uid }
  }
}

function install (packed: string, { folder: cwd, env, uid }: PackageUser): void {
  const startedAt = performance.now()
  const identity = uid === undefined ? {} : { uid, gid: uid }
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', packed], { cwd, env, stdio: 'inherit', ...identity })
  const version = execFileSync('npx', ['millrace', '--version'], { cwd, env, encoding: 'utf8', ...identity }).trim()
  print(`installed version ${version} in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
}

function print (text: string): void {
  process.stdout.write(`${text}\n`)
}

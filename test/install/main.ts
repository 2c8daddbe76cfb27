/**
 * `npm run check:install`: walks "One machine, the package" of docs/run/install.md line by line: every command of its
 * blocks, as it stands there, in order. Ports are free ones, which the settings file and the environment have
 * beforehand. Fetches what npm and the first start fetch, takes some minutes.
 *
 * Nothing of it reaches the machine: /etc, /var, /opt, /home and the clone are overlays in a mount namespace. A new
 * user runs the lines; what it asks `sudo` for, this process does as root. `systemctl` is not run, as systemd would
 * have to be PID 1: systemd-analyze reads the unit, and its program is started with its user, folders and settings.
 * Linux, root and the systemd package only; TMPDIR must not be on an overlay.
 */
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { findMachineNode } from '../package/installed-package.ts'
import { withoutSettings } from '../support/environments.ts'
import { freePorts } from '../support/local-ports.ts'
import { waitFor } from '../support/wait-for.ts'
import { enterNamespaces, INSIDE } from './namespaces.ts'
import { serviceScript } from './service-script.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const PAGE = path.join(ROOT, 'docs', 'run', 'install.md')
const SECTION = 'One machine, the package'
const OVERLAYS = ['/etc', '/var', '/opt', '/home', ROOT]
const ADMIN = 'admin-of-check'
const UNIT = '/etc/systemd/system/millrace.service'
const SETTINGS = '/etc/millrace/millrace.env'
const DATA_DIR = '/var/lib/millrace'
const BACKUPS = '/var/backups/millrace'
/** The first start fetches nats-server, on a machine that may be busy. */
const READY_MS = 600_000
/** A command that goes on until Ctrl-C is watched at least for so long, and until it has printed something. */
const FOLLOW_MS = 8000
const OF_THE_CLONE = /^(npm_(package|lifecycle|command|node|execpath|config_cache)|NODE_COMPILE_CACHE|XDG_CACHE_HOME)/
const SERVICE_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin'
const run = promisify(execFile)

type Child = ReturnType<typeof spawn>

let failures = 0
let service: Child | undefined

if (process.argv[2] === INSIDE) {
  await walk(process.argv[3]!)
  process.exit(failures === 0 ? 0 : 1)
} else {
  process.exitCode = enterNamespaces({ file: import.meta.filename, under: tmpdir() })
}

async function walk (folder: string): Promise<void> {
  OVERLAYS.forEach((each, index) => mountOverlay(each, path.join(folder, String(index))))
  execFileSync('useradd', ['--create-home', '--home-dir', `/home/${ADMIN}`, '--shell', '/bin/bash', ADMIN])
  const names = ['MILLRACE_PORT', 'MILLRACE_CLICKHOUSE_PORT', 'MILLRACE_NATS_PORT', 'MILLRACE_POSTGRES_PORT']
  const numbers = await freePorts(names.length)
  const ports = Object.fromEntries(names.map((name, index) => [name, String(numbers[index])]))
  const shell = await createShell(ports)
  const commands = readCommands()
  report(`${commands.length} commands in "${SECTION}" of docs/run/install.md`, commands.length > 10)
  for (const command of commands) {
    process.stdout.write(`\n$ ${command}\n`)
    const isDone = command.includes('systemctl') ? await runSystemctl(command, folder) : await runLine(command, shell, ports)
    report('done', isDone)
    if (!isDone) break
  }
  await stopService()
}

/** The commands of the blocks of the section, without their comments; a line that ends in `\` goes on in the next. */
function readCommands (): string[] {
  const page = readFileSync(PAGE, 'utf8')
  const section = page.split(/^## /m).find((each) => each.startsWith(`${SECTION}\n`)) ?? ''
  return [...section.matchAll(/^```sh\n([^]*?)^```/gm)].flatMap(([, block = '']) =>
    block.replaceAll('\\\n', ' ').split('\n').map((line) => line.replace(/\s+# .*$/, '').trim()).filter(Boolean))
}

interface Shell {
  /** Runs a command where the one before it ended, and watches it. */
  run: (command: string, options: { isRoot: boolean, until: ((printed: string) => boolean) | null }) =>
  Promise<{ code: number | null, printed: string }>
}

/**
 * Commands of a new user, with the Node and npm of the machine and caches of its own. Input of `sudo`, after the
 * shell of the user has read it, is run by this process.
 */
async function createShell (ports: Record<string, string>): Promise<Shell> {
  const withoutClone = (process.env.PATH ?? '').split(path.delimiter).filter((each) => !each.includes('node_modules'))
  const inherited = Object.entries(withoutSettings(process.env)).filter(([name]) => !OF_THE_CLONE.test(name))
  const PATH = [path.dirname(await findMachineNode()), ...withoutClone].join(path.delimiter)
  const env = { ...Object.fromEntries(inherited), PATH }
  const home = path.join('/home', ADMIN)
  const asAdmin = ['setpriv', `--reuid=${ADMIN}`, `--regid=${ADMIN}`, '--init-groups']
  const [where, asked, answered] = ['cwd', 'asked', 'answered'].map((name) => path.join(home, `.${name}`)) as [string, string, string]
  const sudo = `sudo () {
    printf '%s\\0' "$PWD" "$@" > ${asked}.new; mv ${asked}.new ${asked}
    until [ -e ${answered} ]; do sleep 0.05; done
    local code=$(cat ${answered}); rm -f ${answered}; return $code
  }`
  let cwd = ROOT
  return {
    async run (command, { isRoot, until }) {
      let printed = ''
      const children: Child[] = []
      const closed: Promise<unknown>[] = []
      const start = ([program = '', ...args]: readonly string[], options: { cwd: string, env: NodeJS.ProcessEnv }): Child => {
        const child = spawn(program, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
        for (const output of [child.stdout!, child.stderr!]) output.on('data', (chunk: Buffer) => { printed += chunk.toString() })
        children.push(child)
        closed.push(once(child, 'close'))
        return child
      }
      const ofRoot = { ...env, HOME: '/root', USER: 'root' }
      const child = isRoot
        ? start(['bash', '-c', command], { cwd, env: ofRoot })
        : start([...asAdmin, 'bash', '-c', `${sudo}\n${command}\nstatus=$?; pwd > ${where}; exit $status`], {
          cwd, env: { ...env, ...ports, HOME: home, USER: ADMIN }
        })
      const sudoers = setInterval(() => {
        if (!existsSync(asked)) return
        const [folder = '/', ...args] = readFileSync(asked, 'utf8').split('\0').slice(0, -1)
        rmSync(asked)
        start(['env', ...args], { cwd: folder, env: ofRoot }).on('close', (code) => {
          // Removed by the user who asked, from a folder of that user.
          writeFileSync(`${answered}.new`, String(code ?? 1))
          renameSync(`${answered}.new`, answered)
        })
      }, 50)
      const ended = once(child, 'close') as Promise<[number | null]>
      if (until !== null) {
        await waitFor(() => child.exitCode !== null || until(printed), { timeoutMs: READY_MS })
        // Ctrl-C reaches the whole group.
        for (const each of children) if (each.exitCode === null) process.kill(-each.pid!, 'SIGINT')
      }
      const [code] = await ended
      await Promise.all(closed)
      clearInterval(sudoers)
      // Of a shell that was interrupted nobody took the answer.
      rmSync(answered, { force: true })
      if (!isRoot && existsSync(where)) cwd = readFileSync(where, 'utf8').trim()
      return { code, printed }
    }
  }
}

/** Runs a line as it stands, but for the path of the package. */
async function runLine (command: string, shell: Shell, ports: Record<string, string>): Promise<boolean> {
  const line = command.replaceAll('/path/to/', `${ROOT}/`)
  const isStart = line.endsWith(' start')
  const startedAt = performance.now()
  const { code, printed } = await shell.run(line, {
    // In the clone, which belongs to the user who runs this.
    isRoot: line === 'npm pack',
    until: isStart
      ? (printed) => printed.includes('Millrace is ready')
      : line.endsWith('--follow') ? (printed) => performance.now() - startedAt > FOLLOW_MS && isFollowed(printed) : null
  })
  process.stdout.write(printed.split('\n').slice(-25).join('\n'))
  if (isStart) return printed.endsWith('Stopped\n')
  if (line.endsWith('--follow')) return isFollowed(printed)
  if (code !== 0) return false
  if (line.endsWith(` /dev/null ${SETTINGS}`)) appendFileSync(SETTINGS, Object.entries(ports).map(([name, port]) => `${name}=${port}\n`).join(''))
  if (line.includes('millrace.service /etc/')) await checkUnit()
  if (line.endsWith('status --once')) report('nothing is stuck', printed.includes('nothing is stuck'))
  return true
}

/** Whether lines of logs were printed, beside what npm says. */
function isFollowed (printed: string): boolean {
  return printed.split('\n').filter((line) => line !== '' && !line.startsWith('npm ')).length > 3
}

/** What systemd says of the unit. */
async function checkUnit (): Promise<void> {
  const { stderr } = await run('systemd-analyze', ['verify', '--man=no', UNIT]).catch((error: { stderr: string }) => error)
  report('systemd-analyze verify finds nothing', !stderr.includes('millrace'), stderr)
  const { stdout } = await run('systemd-analyze', ['security', '--offline=true', '--no-pager', UNIT])
  const [, exposure] = /Overall exposure level.*?: ([\d.]+)/.exec(stdout) ?? []
  report(`systemd-analyze security: exposure ${exposure} of 10`, Number(exposure) < 3)
  const [login] = /^millrace:.*$/m.exec(readFileSync('/etc/passwd', 'utf8')) ?? ['']
  report(`a user that nobody logs in as: ${login}`, login.endsWith(':/usr/sbin/nologin'))
}

/** Does what systemd would. */
async function runSystemctl (command: string, folder: string): Promise<boolean> {
  // The unit is read again at each start.
  if (command === 'sudo systemctl daemon-reload') return true
  const [, verb] = /^sudo systemctl (enable --now|restart|disable --now) millrace$/.exec(command) ?? []
  if (verb === undefined) return false
  const journal = path.join(folder, 'journal')
  if (verb !== 'enable --now') {
    const startedAt = performance.now()
    const code = await stopService()
    const seconds = (performance.now() - startedAt) / 1000
    report(`it stopped after ${seconds.toFixed(1)} s with code ${code}`, code === 0 && seconds < 30)
    const left = spawnSync('pgrep', ['--uid', 'millrace', '--list-full'], { encoding: 'utf8' }).stdout
    report('no process of the user is left', left === '', left)
  }
  if (verb === 'disable --now') return true
  rmSync(path.join(DATA_DIR, 'addresses.json'), { force: true })
  const output = openSync(journal, 'a')
  const started = spawn('bash', ['-c', serviceScript(readFileSync(UNIT, 'utf8'))], { env: { PATH: SERVICE_PATH }, stdio: ['ignore', output, output] })
  service = started
  await waitFor(() => started.exitCode !== null || isReady(), { timeoutMs: READY_MS }).catch(() => {})
  report('it is ready', started.exitCode === null && isReady(), readFileSync(journal, 'utf8'))
  if (!isReady()) return false
  await checkService()
  if (existsSync(BACKUPS)) {
    const isMade = (): boolean => readdirSync(BACKUPS).some((name) => existsSync(path.join(BACKUPS, name, 'manifest.json')))
    report(`it makes a backup in ${BACKUPS}`, await waitFor(isMade, { timeoutMs: 90_000 }).catch(() => false))
  }
  return true
}

/** SIGTERM to the first process alone, as `KillMode=mixed` does; resolves with its exit code. */
async function stopService (): Promise<number | null> {
  if (service === undefined) return null
  const ended = once(service, 'exit') as Promise<[number | null]>
  service.kill('SIGTERM')
  service = undefined
  return (await ended)[0]
}

function isReady (): boolean {
  return spawnSync('test', ['-f', path.join(DATA_DIR, 'addresses.json')]).status === 0
}

/** The service takes events, and keeps what it has to itself. */
async function checkService (): Promise<void> {
  const read = <T>(name: string): T => JSON.parse(readFileSync(path.join(DATA_DIR, name), 'utf8')) as T
  const { projectApiKey, analystPassword } = read<Record<string, string>>('credentials.json')
  const { baseUrl, clickhouseUrl } = read<Record<string, string>>('addresses.json')
  const event = `at ${Date.now()}`
  const { status } = await fetch(`${baseUrl}/capture/`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: projectApiKey, event, distinct_id: 'd' })
  })
  const { origin } = new URL(clickhouseUrl!)
  const authorization = `Basic ${Buffer.from(`analyst:${analystPassword}`).toString('base64')}`
  const stored = await waitFor(async () => {
    const answer = await fetch(`${origin}/?database=millrace`, { method: 'POST', headers: { authorization }, body: 'SELECT event FROM events' })
    return (await answer.text()).includes(event)
  }).catch(() => false)
  report('it takes an event, and analysts see it', status === 200 && stored)
  const { stdout } = await run('ps', ['-o', 'user=', '-p', String(service!.pid)])
  report(`it runs as ${stdout.trim()}`, stdout.trim() === 'millrace')
  report('others cannot read its data', execFileSync('stat', ['--format=%U %a', DATA_DIR], { encoding: 'utf8' }) === 'millrace 700\n')
}

function mountOverlay (target: string, folder: string): void {
  const [upper, work] = [path.join(folder, 'upper'), path.join(folder, 'work')]
  for (const each of [upper, work]) mkdirSync(each, { recursive: true })
  const { uid, gid, mode } = JSON.parse(execFileSync('stat', ['--format={"uid":%u,"gid":%g,"mode":"%a"}', target], { encoding: 'utf8' })) as
    { uid: number, gid: number, mode: string }
  execFileSync('chown', [`${uid}:${gid}`, upper])
  execFileSync('chmod', [mode, upper])
  execFileSync('mount', ['-t', 'overlay', 'overlay', '-o', `lowerdir=${target},upperdir=${upper},workdir=${work}`, target])
}

function report (what: string, isGood: boolean, more = ''): void {
  if (!isGood) failures++
  process.stdout.write(`${isGood ? 'ok    ' : 'NOT OK'} ${what}\n${isGood ? '' : more}`)
}

import { execFile } from 'node:child_process'
import { mkdir, realpath, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { CliContext } from '../cli-context.ts'
import {
  checkServiceFolders, checkServicePrograms, findHiddenProgram, isBelowHome, readServiceFolders, type ServiceFolders,
  type ServicePrograms
} from './service-folders.ts'

const RUNS = ['start', 'ingest', 'pipeline', 'api'] as const
type Run = typeof RUNS[number]

export interface ServiceOptions extends ServicePrograms {
  /** What it runs: everything, or one tier on servers of one's own. */
  run: Run
  user: string
  /** Folders that it may write to besides its state directory. */
  folders?: ServiceFolders
}

const USER = 'millrace'
const UNITS = '/etc/systemd/system'
const SETTINGS_FOLDER = '/etc/millrace'
const run = promisify(execFile)

/** `millrace service install|print`: Millrace as a service of systemd. */
export function addServiceCommands (program: Command, context: CliContext): void {
  const service = program.command('service').description('run Millrace as a service of systemd, in a user of its own')
  const what = (): Argument => new Argument('[what]', 'everything, or one tier').choices(RUNS).default('start')
  const user = (): Option => new Option('--user <name>', 'user that runs it').argParser(readUser).default(USER)

  service.command('print')
    .description('show the unit that "install" writes')
    .addArgument(what())
    .addOption(user())
    .action(async (run: Run, { user }: { user: string }) => {
      const folders = await readServiceFolders(settingsOf('/', run), stateDirectoryOf(run))
      const programs = await ownPrograms()
      context.stdout.write(renderUnit({ run, user, folders, ...programs }))
      const hidden = await findHiddenProgram(programs)
      if (hidden !== undefined) context.stderr.write(`millrace: ${hidden}\n`)
    })

  service.command('install')
    .description(`create the user when it is missing, write the unit to ${UNITS} and a file for settings to ${SETTINGS_FOLDER}; needs root.\n` +
      'Install again when MILLRACE_DATA_DIR or MILLRACE_BACKUP_FOLDER changes there: the unit names what it may write to')
    .addArgument(what())
    .addOption(user())
    .action(async (run: Run, { user }: { user: string }) => {
      if (process.getuid?.() !== 0) throw refused('only root can install a service: use sudo, or "millrace service print"')
      const programs = await ownPrograms()
      const hidden = await findHiddenProgram(programs)
      // Before there is a user that nobody needs.
      if (hidden !== undefined) throw refused(hidden)
      await createUser(user)
      if (await isRoot(user)) throw refused(`the user ${user} is root by another name: ${NOT_ROOT}`)
      await checkServicePrograms(programs, user)
      const folders = await readServiceFolders(settingsOf('/', run), stateDirectoryOf(run))
      await checkServiceFolders(folders, user)
      const { unit, settings } = await writeService('/', { run, user, folders, ...programs })
      await reloadSystemd()
      const name = path.basename(unit, '.service')
      context.stdout.write(`wrote ${unit} and ${settings}\nStart it now and at each boot: systemctl enable --now ${name}\n`)
    })
}

/** A name that useradd cannot take for an option, nor systemd for more than a name. */
function readUser (text: string): string {
  if (!/^[A-Za-z_][\w.-]{0,30}$/.test(text)) {
    throw new InvalidArgumentError('Give a name of at most 31 letters, digits, "_", "-" and ".", which begins with a letter or "_".')
  }
  if (text === 'root') throw new InvalidArgumentError(`Give another user than root: ${NOT_ROOT}.`)
  return text
}

/** Why: PostgreSQL does not run as root, and the unit takes away the rights with which another user would be chosen. */
const NOT_ROOT = 'a service has none of root\'s rights, so it could not start Postgres in a user of its own'

async function isRoot (name: string): Promise<boolean> {
  const { stdout } = await run('id', ['--user', name])
  return Number(stdout) === 0
}

/** The unit, with what the process needs and nothing more. Why each line: docs/install.md. */
export function renderUnit ({ run, user, node, entry, folders: { dataDir, backups } = {} }: ServiceOptions): string {
  const name = nameOf(run)
  const mayRead = [node, entry, dataDir, backups].some((file) => file !== undefined && isBelowHome(file))
  // Started on the empty folder of a disk that is not mounted, it would begin again there.
  const mounts = dataDir === undefined ? '' : `RequiresMountsFor=${quote(dataDir)}\n`
  const writable = [...dataDir === undefined ? [] : [quote(dataDir)], ...backups === undefined ? [] : [quote(backups, '-')]]
  return `[Unit]
Description=Millrace, ${run === 'start' ? 'the whole system' : `tier ${run}`}
Documentation=${documentationOf(entry)}
After=network-online.target remote-fs.target
Wants=network-online.target
${mounts}
[Service]
Type=exec
ExecStart=${[node, entry].map((file) => quote(file).replaceAll('$', '$$$$')).join(' ')} ${run}
User=${user}
Group=${user}
StateDirectory=${name}
CacheDirectory=millrace
WorkingDirectory=/var/lib/${name}
Environment=MILLRACE_DATA_DIR=/var/lib/${name} XDG_CACHE_HOME=/var/cache HOME=/var/lib/${name}
EnvironmentFile=-${SETTINGS_FOLDER}/${name}.env
Restart=always
RestartSec=2
# SIGTERM to the first process alone, which ends the others in order within 10 s.
KillMode=mixed
TimeoutStopSec=30
LimitNOFILE=65536
OOMPolicy=continue

UMask=0077
StateDirectoryMode=0700
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
ProtectSystem=strict
${writable.length === 0 ? '' : `ReadWritePaths=${writable.join(' ')}\n`}ProtectHome=${mayRead ? 'read-only' : 'yes'}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
`
}

/**
 * Writes the unit, and a file for its settings unless there is one.
 *
 * @param root  `/`, or a folder that stands for it.
 */
export async function writeService (
  root: string, options: ServiceOptions
): Promise<{ unit: string, settings: string }> {
  const name = nameOf(options.run)
  const unit = path.join(root, UNITS, `${name}.service`)
  const settings = settingsOf(root, options.run)
  await mkdir(path.dirname(unit), { recursive: true })
  await mkdir(path.dirname(settings), { recursive: true })
  await writeFile(unit, renderUnit(options))
  const text = `# Settings of ${name}.service, one NAME=value a line: docs/settings.md. A comment has a line\n# of its own: systemd takes it for part of a value otherwise. Read by systemd as root.\n`
  await writeFile(settings, text, { mode: 0o600, flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  return { unit, settings }
}

function nameOf (run: Run): string {
  return run === 'start' ? 'millrace' : `millrace-${run}`
}

function settingsOf (root: string, run: Run): string {
  return path.join(root, SETTINGS_FOLDER, `${nameOf(run)}.env`)
}

function stateDirectoryOf (run: Run): string {
  return `/var/lib/${nameOf(run)}`
}

/** A path as systemd reads it. `-` before it: passed over when there is no such folder. */
function quote (file: string, before: '' | '-' = ''): string {
  const text = before + file.replaceAll('%', '%%')
  return /^[\w./+@:%$-]+$/.test(text) ? text : `"${text.replaceAll(/["\\]/g, '\\$&')}"`
}

/** A word of systemd, so without blanks, quotes and the percent signs that stand for something to it. */
function documentationOf (entry: string): string {
  const root = path.join(entry, '..', '..', ...path.basename(path.join(entry, '..', '..')) === 'dist' ? ['..'] : [])
  return pathToFileURL(path.join(root, 'docs', 'operations.md')).href.replaceAll("'", '%27').replaceAll('%', '%%')
}

/** This installation, and the Node that runs it now. */
async function ownPrograms (): Promise<ServicePrograms> {
  const entry = path.join(import.meta.dirname, '..', `main${path.extname(import.meta.filename)}`)
  // systemd follows the links itself, but tells by the name in the unit whether a home has it.
  return { node: await realpath(process.execPath), entry: await realpath(entry) }
}

async function createUser (name: string): Promise<void> {
  if (await run('id', ['--user', name]).then(() => true, () => false)) return
  const options = ['--system', '--user-group', '--no-create-home', '--home-dir', `/var/lib/${USER}`, '--shell']
  await run('useradd', [...options, '/usr/sbin/nologin', name])
}

/** Where systemd does not run, as in the making of an image, there is nothing to reload. */
async function reloadSystemd (): Promise<void> {
  const isRunning = await stat('/run/systemd/system').then(() => true, () => false)
  if (isRunning) await run('systemctl', ['daemon-reload'])
}

function refused (why: string): MillraceError {
  return new MillraceError('MILLRACE_SERVICE_REFUSED', why)
}

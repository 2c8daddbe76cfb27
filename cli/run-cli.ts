import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { HttpError, MillraceError } from '../engines/errors.ts'
import { classifyClickHouseError } from '../platform/clickhouse/clickhouse-errors.ts'
import { classifyPostgresError } from '../platform/postgres/postgres-errors.ts'
import { isUnavailable } from '../platform/store-errors.ts'
import { describeVersion } from '../schema/version.ts'
import {
  type CliContext, type CliWorld, createCliContext, DEFAULT_TIMEOUT_MS, NO_ANSWER, SERVICE_SETTINGS,
  type ServiceName, ServiceTimeoutError
} from './cli-context.ts'
import { addAuditCommands } from './commands/audit.ts'
import { addBackupCommands, addBackupsCommands } from './commands/backups.ts'
import { addCheckCommands } from './commands/check.ts'
import { addDeadLettersCommands } from './commands/dead-letters.ts'
import { addExportsCommands } from './commands/exports.ts'
import { addImportCommands } from './commands/import.ts'
import { addImportFlagsCommands } from './commands/import-flags.ts'
import { addLoginsCommands } from './commands/logins.ts'
import { addLogsCommands } from './commands/logs.ts'
import { addMigrateCommands } from './commands/migrate.ts'
import { addMoveCommands } from './commands/move.ts'
import { addPersonsCommands } from './commands/persons.ts'
import { addProcessCommands } from './commands/processes.ts'
import { addAlertsCommands, addTargetsCommands } from './commands/targets-and-alerts.ts'
import { addKeysCommands, addProjectsCommands } from './commands/projects-and-keys.ts'
import { addRequestCommands } from './commands/request.ts'
import { addStatusCommands } from './commands/status.ts'
import { addUsersCommands } from './commands/people.ts'
import { IMPORTED_WITH_DIFFERENCES } from './import/import-options.ts'
import { COLLECTORS, readDuration } from './read-arguments.ts'

/** Adds the commands of one group, such as `keys create`. A new group is one file, and one name in `GROUPS`. */
export type CommandGroup = (program: Command, context: CliContext) => void

const GROUPS: readonly CommandGroup[] = [
  addProcessCommands, addMigrateCommands, addStatusCommands, addLogsCommands,
  addProjectsCommands, addKeysCommands, addUsersCommands, addPersonsCommands,
  addDeadLettersCommands, addAuditCommands, addExportsCommands,
  addTargetsCommands, addAlertsCommands,
  addBackupCommands, addBackupsCommands,
  addRequestCommands, addLoginsCommands, addImportCommands, addImportFlagsCommands, addCheckCommands,
  addMoveCommands
]

/** Exit codes of `npx millrace`; documented in docs/run/operations.md. */
export const EXIT = {
  done: 0,
  /** The command was refused or failed; the message says why. */
  failed: 1,
  /** The command line is wrong; nothing was done. */
  wrongCommandLine: 2,
  /** A service refuses connections or does not answer: changes may be done or not. */
  noAnswer: NO_ANSWER,
  /** Of `import`: everything is stored, but rows that were rejected, or not all of it as the files have it. */
  importedWithDifferences: IMPORTED_WITH_DIFFERENCES
} as const

/**
 * Runs one command line.
 *
 * @param args  The arguments after the runtime and the file.
 * @returns the exit code, one of `EXIT`.
 */
export async function runCli (args: readonly string[], world: CliWorld): Promise<number> {
  const context = createCliContext(world)
  const program = buildProgram(context)
  try {
    await Promise.race([program.parseAsync(args, { from: 'user' }), context.silence])
    return context.exitCode
  } catch (error) {
    // Commander has written its own message; help and version are not failures.
    if (error instanceof CommanderError && !(error instanceof InvalidArgumentError)) {
      return error.exitCode === 0 ? EXIT.done : EXIT.wrongCommandLine
    }
    const unavailable = isUnavailable(error) ? await context.findUnavailable() : []
    const { exitCode, message } = describeFailure(error, unavailable)
    context.stderr.write(`millrace: ${message}\n`)
    return exitCode
  } finally {
    await context.close()
  }
}

function buildProgram (context: CliContext): Command {
  const program = new Command('millrace')
    .description('Runs and manages Millrace. Commands use the management API: at --url with the key --key; without these, at\n' +
      'MILLRACE_URL with MILLRACE_KEY; without those, of the stack that "millrace start" runs on the data directory\n' +
      '(MILLRACE_DATA_DIR, else .millrace). Commands that work without the API connect to the services themselves, at\n' +
      'DATABASE_URL, CLICKHOUSE_URL and NATS_URL; a service without such a setting is that of the same stack.')
    .version(describeVersion())
    .option('--url <url>', 'address of Millrace, such as https://events.example.com', readUrl)
    .option('--key <key>', 'personal API key (phx_...)')
    .addOption(new Option('--timeout <duration>', 'maximum wait for an unresponsive service')
      .argParser(readTimeout).default(DEFAULT_TIMEOUT_MS / 1000, '10s; request: 10m'))
    .hook('preAction', () => {
      const { timeout, ...access } = program.opts<{ timeout: number, url?: string, key?: string }>()
      context.timeoutMs = timeout * 1000
      context.access = access
    })
    .configureHelp({ showGlobalOptions: true })
    .exitOverride()
    .showHelpAfterError('(add --help for the commands and options)')
    .configureOutput({
      writeOut: (text) => { context.stdout.write(text) },
      writeErr: (text) => { context.stderr.write(text) }
    })
  for (const add of GROUPS) add(program, context)
  addHints(program)
  checkHelp(program)
  checkOptions(program)
  return program
}

/** Names that other programs have for a command, too far from ours for Commander's suggestions. */
const HINTS = {
  doctor: 'status, check or audit', health: 'status', up: 'start', dump: 'backup', upgrade: 'migrate', tail: 'logs --follow'
}

/** Makes the names of `HINTS` known, as unknown commands. */
function addHints (program: Command): void {
  for (const [name, hint] of Object.entries(HINTS)) {
    program.command(name, { hidden: true }).argument('[anything...]').allowUnknownOption().helpOption(false).action(() =>
      program.error(`error: unknown command '${name}'\n(Did you mean ${hint}?)`, { code: 'commander.unknownCommand' }))
  }
}

function readTimeout (text: string): number {
  const seconds = readDuration(text)
  if (seconds < 1) throw new InvalidArgumentError('Give at least 1s.')
  return seconds
}

function readUrl (text: string): string {
  if (!/^https?:$/.test(URL.parse(text)?.protocol ?? '')) throw new InvalidArgumentError('Give an address that begins with http:// or https://.')
  return text
}

/**
 * Describes a failure in one line, with its exit code.
 *
 * @param unavailable  Services of the command that do not answer: errors of sockets and time-outs do not name them.
 */
function describeFailure (
  error: unknown, unavailable: readonly ServiceName[] = []
): { exitCode: number, message: string } {
  const isNoAnswer = error instanceof ServiceTimeoutError || (error instanceof HttpError && error.status === 503) ||
    (error instanceof MillraceError && (error.code === 'MILLRACE_API_UNAVAILABLE' || isUnavailable(error)))
  if (isNoAnswer) return { exitCode: EXIT.noAnswer, message: error.message }
  // Of an action, such as two options that contradict each other: Commander has not seen it.
  if (error instanceof InvalidArgumentError) return { exitCode: EXIT.wrongCommandLine, message: error.message }
  if (error instanceof MillraceError) return failed(error.message)
  const message = error instanceof Error ? error.message : String(error)
  const postgres = classifyPostgresError(error)
  if (postgres.action === 'repair' || postgres.name === 'check_violation') return failed(`${postgres.why} (${message})`)
  const clickhouse = classifyClickHouseError(error)
  if (clickhouse.action === 'repair') return failed(`ClickHouse: ${clickhouse.why} (${message})`)
  if (isUnavailable(error)) {
    const [who, verb] = unavailable.length === 0
      ? ['a service', 'does']
      : [unavailable.join(' and '), unavailable.length === 1 ? 'does' : 'do']
    const settings = unavailable.length === 0
      ? Object.values(SERVICE_SETTINGS)
      : unavailable.map((name) => SERVICE_SETTINGS[name])
    return {
      exitCode: EXIT.noAnswer,
      message: `${who} ${verb} not answer; check npx millrace status, start Millrace (npx millrace start), or set ${settings.join(' or ')}`
    }
  }
  return failed(message)
}

function failed (message: string): { exitCode: number, message: string } {
  return { exitCode: EXIT.failed, message }
}

type Read = (text: string, before: unknown) => unknown

/**
 * Gives every option and argument of all commands the rules that Commander leaves to each of them:
 *
 * - A value is not empty. An empty one is nearly always a shell variable that is not set, and would mean everything, or
 *   the default.
 * - An option is given once, unless it collects its values. Of several, Commander takes the last without a word.
 *
 * Call it after all commands are added, once for each command line.
 */
function checkOptions (command: Command): void {
  for (const option of command.options) {
    // A flag may be repeated: it says the same again.
    if (!option.required && !option.optional) continue
    const read = option.parseArg as Read | undefined
    let isGiven = false
    option.argParser((text: string, before: unknown) => {
      refuseEmpty(text)
      if (isGiven && !COLLECTORS.includes(read)) throw new InvalidArgumentError('The option can only be given once.')
      isGiven = true
      return read === undefined ? text : read(text, before)
    })
  }
  for (const argument of command.registeredArguments) {
    const read = argument.parseArg as Read | undefined
    argument.argParser((text: string, before: unknown) => {
      refuseEmpty(text)
      return read === undefined ? text : read(text, before)
    })
  }
  for (const each of command.commands) checkOptions(each)
}

/**
 * Makes `help` of every group refuse a name that it does not have, as the group does; Commander's own shows the general
 * help for it, as if it were what was asked for.
 *
 * Call it after all commands are added.
 */
function checkHelp (group: Command): void {
  if (group.commands.length === 0) return
  for (const each of group.commands) checkHelp(each)
  group.helpCommand(false)
  group.command('help').description('display help for command').argument('[command]', 'name of a command').action((name?: string) => {
    const shown = group.createHelp().visibleCommands(group)
    const found = name === undefined ? group : shown.find((each) => each.name() === name)
    if (found === undefined) group.error(`error: unknown command '${name}'`, { code: 'commander.unknownCommand' })
    found.help()
  })
}

function refuseEmpty (text: string): void {
  if (text.trim() === '') throw new InvalidArgumentError('The value is empty; give a value.')
}

import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { type CliContext, type CliWorld, createCliContext, DEFAULT_TIMEOUT_MS } from './cli-context.ts'
import { addBackupCommands } from './commands/backup.ts'
import { addDeadLettersCommands } from './commands/dead-letters.ts'
import { addKeysCommands, addProjectsCommands, addUsersCommands } from './commands/projects-and-keys.ts'
import { addPersonsCommands } from './commands/persons.ts'
import { addPropertiesCommands } from './commands/properties.ts'
import { addRetentionCommands } from './commands/retention.ts'
import { addStatusCommands } from './commands/status.ts'
import { isUnavailable, MillraceError } from '../platform/errors.ts'
import { readDuration } from './read-arguments.ts'

/** Adds the commands of one group, such as `keys create`. A new group is one file, and one line below. */
export type CommandGroup = (program: Command, context: CliContext) => void

const GROUPS: readonly CommandGroup[] = [
  addProjectsCommands, addUsersCommands, addKeysCommands, addPersonsCommands, addDeadLettersCommands, addStatusCommands,
  addBackupCommands, addRetentionCommands, addPropertiesCommands
]

/**
 * Runs one command line.
 *
 * @param args  Without the runtime and the file.
 * @returns the exit code, one of `EXIT`.
 */
export async function runCli (args: readonly string[], world: CliWorld): Promise<number> {
  const context = createCliContext(world)
  const program = buildProgram(context)
  try {
    await Promise.race([program.parseAsync(args, { from: 'user' }), context.silence])
    return EXIT.done
  } catch (error) {
    // Commander has written its message itself; help and version are no failures.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.wrongCommandLine
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
    .description('Manages a Millrace installation. Services are found by DATABASE_URL, CLICKHOUSE_URL and NATS_URL,\n' +
      'or by the stack that "npm start" runs on the data directory.')
    .option('--timeout <duration>', 'how long a service may be silent before the command gives up', readTimeout,
      DEFAULT_TIMEOUT_MS / 1000)
    .hook('preAction', () => { context.timeoutMs = program.opts<{ timeout: number }>().timeout * 1000 })
    .exitOverride()
    .showHelpAfterError('(add --help for the options)')
    .configureOutput({
      writeOut: (text) => { context.stdout.write(text) },
      writeErr: (text) => { context.stderr.write(text) }
    })
  for (const add of GROUPS) add(program, context)
  return program
}

function readTimeout (text: string): number {
  const seconds = readDuration(text)
  if (seconds < 1) throw new InvalidArgumentError('Give at least 1s.')
  return seconds
}

/** Exit codes of `npx millrace`; listed in docs/operations.md. */
export const EXIT = {
  done: 0,
  /** Refused, or failed for a reason that is told. */
  failed: 1,
  /** Nothing was tried: the command line is wrong. */
  wrongCommandLine: 2,
  /** A service refuses connections or hangs: what was asked is unknown, what was begun may be done or not. */
  noAnswer: 3
} as const

/** The services that commands use, each with the setting that says where it is. */
const SERVICE_SETTINGS = { postgres: 'DATABASE_URL', clickhouse: 'CLICKHOUSE_URL', nats: 'NATS_URL' } as const
export type ServiceName = keyof typeof SERVICE_SETTINGS

/** A service that a command uses hangs. */
export class ServiceSilentError extends MillraceError {
  constructor (service: ServiceName, timeoutMs: number) {
    super('MILLRACE_SERVICE_SILENT', `${service} has not answered for ${timeoutMs / 1000} s; what this command asked for ` +
      'is not known, and what it began may be done or not')
    this.name = 'ServiceSilentError'
  }
}

/** Codes of Postgres that an operator can do something about. */
const POSTGRES_CODES: Record<string, string> = {
  '28P01': 'the database refused the password',
  '3D000': 'the database does not exist',
  '42P01': 'the database has not been migrated; run npm run migrate',
  23514: 'a value is longer than allowed'
}

/**
 * The exit code of a failure, and what went wrong, in one line for the person at the terminal.
 *
 * @param unavailable  Services of the command that do not answer: errors of sockets and time-outs do not name them.
 */
function describeFailure (
  error: unknown, unavailable: readonly ServiceName[] = []
): { exitCode: number, message: string } {
  if (error instanceof ServiceSilentError || (error instanceof MillraceError && isUnavailable(error))) {
    return { exitCode: EXIT.noAnswer, message: error.message }
  }
  if (error instanceof MillraceError || error instanceof InvalidArgumentError) return failed(error.message)
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
  const known = POSTGRES_CODES[code]
  if (known !== undefined) return failed(known)
  if (isUnavailable(error)) {
    const [who, verb] = unavailable.length === 0
      ? ['a service', 'does']
      : [unavailable.join(' and '), unavailable.length === 1 ? 'does' : 'do']
    const settings = unavailable.length === 0
      ? Object.values(SERVICE_SETTINGS)
      : unavailable.map((name) => SERVICE_SETTINGS[name])
    return {
      exitCode: EXIT.noAnswer,
      message: `${who} ${verb} not answer; look at npx millrace status, start Millrace (npm start), or set ${settings.join(' or ')}`
    }
  }
  return failed(error instanceof Error ? error.message : String(error))
}

function failed (message: string): { exitCode: number, message: string } {
  return { exitCode: EXIT.failed, message }
}

import { Command, CommanderError, InvalidArgumentError } from 'commander'
import { createCliContext, DEFAULT_TIMEOUT_MS, type CliContext, type CliWorld } from './cli-context.ts'
import { describeFailure, EXIT } from './describe-failure.ts'
import { addBackupCommands } from './commands/backup.ts'
import { addDeadLettersCommands } from './commands/dead-letters.ts'
import { addKeysCommands } from './commands/keys.ts'
import { addPersonsCommands } from './commands/persons.ts'
import { addProjectsCommands } from './commands/projects.ts'
import { addPropertiesCommands } from './commands/properties.ts'
import { addRetentionCommands } from './commands/retention.ts'
import { addStatusCommands } from './commands/status.ts'
import { addUsersCommands } from './commands/users.ts'
import { isUnavailable } from '../platform/errors.ts'
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

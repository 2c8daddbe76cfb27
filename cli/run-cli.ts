import { Command, CommanderError } from 'commander'
import { createCliContext, type CliContext, type CliWorld } from './cli-context.ts'
import { describeFailure } from './describe-failure.ts'
import { addBackupCommands } from './commands/backup.ts'
import { addDeadLettersCommands } from './commands/dead-letters.ts'
import { addKeysCommands } from './commands/keys.ts'
import { addPersonsCommands } from './commands/persons.ts'
import { addProjectsCommands } from './commands/projects.ts'
import { addPropertiesCommands } from './commands/properties.ts'
import { addRetentionCommands } from './commands/retention.ts'
import { addStatusCommands } from './commands/status.ts'
import { addUsersCommands } from './commands/users.ts'

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
 * @returns the exit code: 0 done, 1 failed, 2 the command line is wrong.
 */
export async function runCli (args: readonly string[], world: CliWorld): Promise<number> {
  const context = createCliContext(world)
  const program = buildProgram(context)
  try {
    await program.parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    // Commander has written its message itself; help and version are no failures.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    context.stderr.write(`millrace: ${describeFailure(error)}\n`)
    return 1
  } finally {
    await context.close()
  }
}

function buildProgram (context: CliContext): Command {
  const program = new Command('millrace')
    .description('Manages a Millrace installation. Services are found by DATABASE_URL, CLICKHOUSE_URL and NATS_URL,\n' +
      'or by the stack that "npm start" runs on the data directory.')
    .exitOverride()
    .showHelpAfterError('(add --help for the options)')
    .configureOutput({
      writeOut: (text) => { context.stdout.write(text) },
      writeErr: (text) => { context.stderr.write(text) }
    })
  for (const add of GROUPS) add(program, context)
  return program
}

import { type Command } from 'commander'
import { createUser } from '../../api/keys/create-user.ts'
import { listUsers } from '../../api/keys/list-users.ts'
import { type CliContext } from '../cli-context.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../print-rows.ts'
import { readText } from '../read-arguments.ts'

/** `millrace users create|list`. */
export function addUsersCommands (program: Command, context: CliContext): void {
  const users = program.command('users').description('people who own personal API keys')

  users.command('create')
    .description('create a user')
    .argument('<email>', 'e-mail address', readText(254))
    .option('--first-name <name>', 'shown as the author of what the user creates', readText(150), '')
    .option(...JSON_OPTION)
    .action(async (email: string, { firstName, ...output }: Output & { firstName: string }) => {
      printFields(context, { ...await createUser(await context.postgres(), { email, firstName }) }, output)
    })

  users.command('list')
    .description('list all users')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printRows(context, await listUsers(await context.postgres()), [
        ['id', ({ id }) => id],
        ['email', ({ email }) => email],
        ['first name', ({ first_name: name }) => name === '' ? null : name],
        ['usable keys', ({ keys }) => keys]
      ], output)
    })
}

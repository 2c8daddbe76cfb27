import { type Command, Option } from 'commander'
import { ROLES } from '../../schema/roles.ts'
import type { CliContext } from '../cli-context.ts'
import { collectIds } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'
import { findUser } from './projects-and-keys.ts'

interface InviteOptions extends Output {
  role: typeof ROLES[number]
  project?: number[]
  persons?: boolean
  name?: string
}

/** `millrace users invite|list|disable`. */
export function addUsersCommands (program: Command, context: CliContext): void {
  const users = program.command('users').description('people who log in, and accounts that own keys')

  users.command('invite')
    .description('invite a person: prints a link that sets a password, works once, and expires after 7 days')
    .argument('<email>', 'mail address; for an existing user: new roles and a new link')
    .addOption(new Option('--role <role>', 'what the person may do').choices(ROLES).makeOptionMandatory())
    .option('--project <id>', 'give the role in this project; repeat for several (default: in all)', collectIds)
    .option('--persons', 'let a viewer read persons and their events')
    .option('--name <name>', 'first name')
    .option(...JSON_OPTION)
    .action(async (email: string, { role, project, persons = false, name, ...output }: InviteOptions) => {
      const roles = (project ?? [null]).map((id) => ({ project_id: id, role, sees_persons: persons }))
      const { user, link, expires_at: expires } = await context.api.post('/api/invitations', { body: { email, first_name: name, roles } })
      const shown = output.json === true ? { user, link, expires_at: expires } : { user: user.email, link, expires }
      printFields(context, shown, output)
    })

  users.command('list')
    .description('list users with their roles')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printRows(context, (await context.api.get('/api/users')).results, [
        'id', ['user', 'email'], ['name', 'first_name'],
        ['roles', ({ roles }) => roles?.map(({ project_id: id, role }) => id === null ? role : `${role} of ${id}`).join(', ') ?? 'account'],
        'keys', ['invited until', 'invited_until'], ['last login', 'last_login_at'], ['disabled', 'disabled_at']
      ], output)
    })

  users.command('disable')
    .description('disable a user: end all sessions, and permanently the keys that the user has or made, links to boards and SQL in alerts')
    .argument('<email>', 'address of the user')
    .action(async (email: string) => {
      await context.api.patch('/api/users/{id}', { params: { id: await findUser(context.api, email) }, body: { disabled: true } })
      context.stdout.write(`Disabled ${email}: sessions, keys, links to boards and SQL in alerts have ended.\n`)
    })
}

import { type Command, InvalidArgumentError } from 'commander'
import { createPersonalKey, listPersonalKeys, revokePersonalKey } from '../../api/projects/personal-keys.ts'
import { createProject, listProjects, rotateProjectKey } from '../../api/projects/projects.ts'
import { createUser, listUsers } from '../../api/projects/users.ts'
import { MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { CliContext } from '../cli-context.ts'
import { collectIds, collectStrings, readDuration, readId, readString, readTimezone } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'
import { addQuotaCommands } from './project-quotas.ts'

interface CreateKeyOptions extends Output {
  user?: string
  label: string
  scope?: string[]
  project?: number[]
  expires?: number
}

/** `millrace projects create|list|rotate-key|quota|usage`. */
export function addProjectsCommands (program: Command, context: CliContext): void {
  const projects = program.command('projects').description('projects and their API keys, which SDKs send')

  projects.command('create')
    .description('create a project and show its API key')
    .argument('<name>', 'name of the project', readString(200))
    .option('--timezone <zone>', 'time zone in which the days of reports begin', readTimezone, 'UTC')
    .option(...JSON_OPTION)
    .action(async (name: string, { timezone, ...output }: Output & { timezone: string }) => {
      const { id, apiKey } = await createProject(await context.postgres(), { name, timezone })
      printFields(context, { id, name, timezone, apiKey }, output)
    })

  projects.command('list')
    .description('list all projects with their accepted keys')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printRows(context, await listProjects(await context.postgres()), [
        ['id', ({ id }) => id],
        ['name', ({ name }) => name],
        ['timezone', ({ timezone }) => timezone],
        ['keys', ({ apiKeys }) => apiKeys.map(({ apiKey, expiresAt }) =>
          expiresAt === null ? apiKey : `${apiKey} (until ${new Date(expiresAt).toISOString()})`)]
      ], output)
    })

  projects.command('rotate-key')
    .description('give a project a new API key; the old one is accepted for a grace period')
    .argument('<id>', 'id of the project', readId)
    .option('--grace <duration>', 'how long the old key is accepted; 0 for no longer', readDuration, 604_800)
    .option(...JSON_OPTION)
    .action(async (projectId: number, { grace, ...output }: Output & { grace: number }) => {
      const rotated = await rotateProjectKey(await context.postgres(), {
        projectId, graceSeconds: grace, now: new Date(context.now())
      })
      printFields(context, { ...rotated }, output)
    })

  addQuotaCommands(projects, context)
}

/** `millrace users create|list`. */
export function addUsersCommands (program: Command, context: CliContext): void {
  const users = program.command('users').description('owners of personal API keys')

  users.command('create')
    .description('create a user')
    .argument('<email>', 'e-mail address', readString(254))
    .option('--first-name <name>', 'shown as the author of what the user creates', readString(150), '')
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

/** `millrace keys create|list|revoke`. */
export function addKeysCommands (program: Command, context: CliContext): void {
  const keys = program.command('keys').description('personal API keys for the management API')

  keys.command('create')
    .description('create a personal API key and show it once')
    .option('--user <email>', 'owner of the key; optional while there is one user')
    .option('--label <text>', 'what the key is for', readString(40), '')
    .option('--scope <scope>', 'what the key may do, such as experiment:read; repeat or separate by commas (default: *)', collectStrings)
    .option('--project <id>', 'limit the key to this project; repeat for several (default: all)', collectIds)
    .option('--expires <duration>', 'how long the key is valid, such as 90d (default: it does not expire)', readValidity)
    .option(...JSON_OPTION)
    .action(async ({ user, label, scope, project, expires, ...output }: CreateKeyOptions) => {
      const sql = await context.postgres()
      const email = user ?? await findOnlyUser(sql)
      const expiresAt = expires === undefined ? null : new Date(context.now() + expires * 1000)
      const scopes = scope ?? ['*']
      const { id, key } = await createPersonalKey(sql, { email, label, scopes, projectIds: project ?? null, expiresAt })
      printFields(context, { id, email, scopes, projectIds: project ?? null, expiresAt, key }, output)
      if (output.json !== true) context.stderr.write('Copy the key now: only its hash is stored.\n')
    })

  keys.command('list')
    .description('list personal API keys, masked')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printRows(context, await listPersonalKeys(await context.postgres()), [
        ['id', ({ id }) => id],
        ['key', ({ mask }) => mask],
        ['user', ({ email }) => email],
        ['label', ({ label }) => label === '' ? null : label],
        ['scopes', ({ scopes }) => scopes],
        ['projects', ({ projectIds }) => projectIds ?? 'all'],
        ['expires', ({ expiresAt }) => expiresAt],
        ['revoked', ({ revokedAt }) => revokedAt],
        ['last used', ({ lastUsedAt }) => lastUsedAt]
      ], output)
    })

  keys.command('revoke')
    .description('revoke a personal API key permanently, and the keys that were made with it over the API')
    .argument('<id-or-key>', 'id from "keys list", or the key itself')
    .option(...JSON_OPTION)
    .action(async (idOrKey: string, output: Output) => {
      printFields(context, { ...await revokePersonalKey(await context.postgres(), idOrKey) }, output)
    })
}

function readValidity (text: string): number {
  const seconds = readDuration(text)
  if (seconds === 0) throw new InvalidArgumentError('Give more than 0.')
  return seconds
}

async function findOnlyUser (sql: Sql): Promise<string> {
  const [only, ...others] = await listUsers(sql)
  if (only !== undefined && others.length === 0) return only.email
  throw new MillraceError('MILLRACE_USER_REQUIRED', only === undefined
    ? 'there is no user yet: create one with "millrace users create <email>"'
    : 'there are several users: name one with --user <email>')
}

import { type Command, InvalidArgumentError } from 'commander'
import { createPersonalKey } from '../../api/keys/create-personal-key.ts'
import { listPersonalKeys } from '../../api/keys/list-personal-keys.ts'
import { listUsers } from '../../api/keys/list-users.ts'
import { revokePersonalKey } from '../../api/keys/revoke-personal-key.ts'
import { MillraceError } from '../../platform/errors.ts'
import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { type CliContext } from '../cli-context.ts'
import { JSON_OPTION, printFields, printRows, type Output } from '../print-rows.ts'
import { collectIds, collectTexts, readDuration, readText } from '../read-arguments.ts'

interface CreateOptions extends Output {
  user?: string
  label: string
  scope?: string[]
  project?: number[]
  expires?: number
}

/** `millrace keys create|list|revoke`. */
export function addKeysCommands (program: Command, context: CliContext): void {
  const keys = program.command('keys').description('personal API keys, for the management API')

  keys.command('create')
    .description('create a personal API key and show it, this once')
    .option('--user <email>', 'owner of the key; may be left out while there is one user')
    .option('--label <text>', 'what the key is for', readText(40), '')
    .option('--scope <scope>', 'what it may do, such as experiment:read; several times or with commas (default: *)', collectTexts)
    .option('--project <id>', 'the only projects it opens; several times (default: all)', collectIds)
    .option('--expires <duration>', 'how long it is valid, such as 90d (default: indefinitely)', readValidity)
    .option(...JSON_OPTION)
    .action(async ({ user, label, scope, project, expires, ...output }: CreateOptions) => {
      const sql = await context.postgres()
      const email = user ?? await findOnlyUser(sql)
      const expiresAt = expires === undefined ? null : new Date(context.now() + expires * 1000)
      const scopes = scope ?? ['*']
      const { id, key } = await createPersonalKey(sql, { email, label, scopes, projectIds: project ?? null, expiresAt })
      printFields(context, { id, email, scopes, projectIds: project ?? null, expiresAt, key }, output)
      if (output.json !== true) context.stderr.write('Keep the key now: only its hash is stored.\n')
    })

  keys.command('list')
    .description('list all personal API keys, never the keys themselves')
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
    .description('revoke a personal API key indefinitely')
    .argument('<id-or-key>', 'id from "keys list", or the key itself')
    .option(...JSON_OPTION)
    .action(async (idOrKey: string, output: Output) => {
      printFields(context, { ...await revokePersonalKey(await context.postgres(), idOrKey) }, output)
    })
}

function readValidity (text: string): number {
  const seconds = readDuration(text)
  if (seconds === 0) throw new InvalidArgumentError('A key must be valid for some time.')
  return seconds
}

async function findOnlyUser (sql: Sql): Promise<string> {
  const [only, ...others] = await listUsers(sql)
  if (only !== undefined && others.length === 0) return only.email
  throw new MillraceError('MILLRACE_USER_NEEDED', only === undefined
    ? 'there is no user yet: create one with "millrace users create <email>"'
    : 'there are several users: name one with --user <email>')
}

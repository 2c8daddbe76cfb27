import { type Command, InvalidArgumentError } from 'commander'
import { createPersonalKey } from '../../api/projects/personal-keys.ts'
import { createUser } from '../../api/projects/users.ts'
import { MillraceError } from '../../engines/errors.ts'
import { maskKey } from '../../schema/key-text.ts'
import type { Answer } from '../../console/api-types.ts'
import type { CliContext } from '../cli-context.ts'
import { listAll, type ManagementClient } from '../management-client.ts'
import { collectIds, collectStrings, readDuration, readId } from '../read-arguments.ts'
import { JSON_OPTION, type Output, printFields, printRows } from '../terminal-output.ts'

interface CreateKeyOptions extends Output {
  user?: string
  label: string
  scope?: string[]
  project?: number[]
  expires?: number
}

type Key = Answer<'/api/personal_api_keys'>['results'][number]

export function addProjectsCommands (program: Command, context: CliContext): void {
  const projects = program.command('projects').description('projects and their API keys, which SDKs send')

  projects.command('create')
    .description('create a project and show its API key')
    .argument('<name>', 'name of the project')
    .option('--timezone <zone>', 'time zone in which the days of reports begin, such as Europe/Berlin', 'UTC')
    .option(...JSON_OPTION)
    .action(async (name: string, { timezone, ...output }: Output & { timezone: string }) => {
      printFields(context, await context.api.post('/api/projects', { body: { name, timezone } }), output)
    })

  projects.command('list')
    .description('list all projects with their API keys')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printRows(context, await listAll(async (query) => await context.api.get('/api/projects', { query })), ['id', 'name', 'timezone', ['key', 'api_token']], output)
    })

  projects.command('keys')
    .description('list the keys of a project, and when rotated ones expire')
    .argument('<id>', 'id of the project', readId)
    .option(...JSON_OPTION)
    .action(async (id: number, output: Output) => {
      const { results } = await context.api.get('/api/projects/{project_id}/keys', { params: { project_id: id } })
      printRows(context, results, [['key', 'api_key'], 'kind', ['created', 'created_at'], ['expires', 'expires_at']], output)
    })

  projects.command('rotate-key')
    .description('give a project a new API key; the old one is accepted for a grace period')
    .argument('<id>', 'id of the project', readId)
    .option('--grace <duration>', 'how long the old key is accepted, in seconds or such as 7d; 0: it stops working at once', readDuration, 604_800)
    .option(...JSON_OPTION)
    .action(async (id: number, { grace, ...output }: Output & { grace: number }) => {
      printFields(context, await context.api.post('/api/projects/{project_id}/rotate_key', {
        params: { project_id: id }, body: { grace_seconds: grace }
      }), output)
    })
}

export function addKeysCommands (program: Command, context: CliContext): void {
  const keys = program.command('keys').description('personal API keys for the management API')

  keys.command('create')
    .description('create a personal API key and show it once; it is revoked with the key that creates it')
    .option('--user <email>', 'owner of the key (default: that of the key in use)')
    .option('--label <text>', 'purpose of the key', 'command line')
    .option('--scope <scope>', 'scope of the key, such as experiment:read; repeat or separate by commas (default: *)', collectStrings)
    .option('--project <id>', 'limit the key to this project; repeat for several (default: all)', collectIds)
    .option('--expires <duration>', 'how long the key is valid, such as 90d (default: as long as the key in use)', readValidity)
    .option(...JSON_OPTION)
    .action(async ({ user, label, scope = ['*'], project, expires, ...output }: CreateKeyOptions) => {
      const created = await context.api.post('/api/personal_api_keys', {
        body: {
          label,
          scopes: scope,
          scoped_teams: project,
          expires_at: expires === undefined ? undefined : new Date(context.now() + expires * 1000).toISOString(),
          user_id: user === undefined ? undefined : await findUser(context.api, user)
        }
      })
      const { id, user: { email }, scopes, scoped_teams: projects, expires_at: expiresAt, value: key } = created
      printFields(context, output.json === true ? created : { id, user: email, scopes, projects: projects ?? 'all', expires: expiresAt, key }, output)
      if (output.json !== true) context.stderr.write('Copy the key now: only its hash is stored.\n')
    })

  keys.command('list')
    .description('list personal API keys, masked')
    .option(...JSON_OPTION)
    .action(async (output: Output) => {
      printRows(context, await listKeys(context.api), [
        'id', ['key', 'mask_value'], ['user', ({ user }) => user.email], ['label', ({ label }) => label === '' ? null : label],
        'scopes', ['projects', ({ scoped_teams: projects }) => projects ?? 'all'],
        ['expires', 'expires_at'], ['revoked', 'revoked_at'], ['last used', 'last_used_at']
      ], output)
    })

  keys.command('revoke')
    .description('permanently revoke a personal API key and the keys created with it')
    .argument('<id-or-key>', 'id from "keys list", or the key itself')
    .action(async (idOrKey: string) => {
      const id = idOrKey.startsWith('phx_') ? await findKey(context.api, idOrKey) : idOrKey
      await context.api.delete('/api/personal_api_keys/{id}', { params: { id } })
      context.stdout.write(`Revoked ${id} and the keys created with it.\n`)
    })

  keys.command('bootstrap')
    .description('create a key with all rights, and its user, directly in Postgres (DATABASE_URL): the first key, or a new one when all\n' +
      'are lost. Prints only the key: export MILLRACE_KEY=$(millrace keys bootstrap me@example.com)')
    .argument('<email>', 'owner of the key')
    .action(async (email: string) => {
      const sql = await context.postgres()
      await createUser(sql, { email, firstName: '' }).catch((error: unknown) => {
        if (!(error instanceof MillraceError && error.code === 'MILLRACE_USER_EXISTS')) throw error
      })
      const { key } = await createPersonalKey(sql, { email, label: 'bootstrap', scopes: ['*'], projectIds: null, expiresAt: null })
      context.stdout.write(`${key}\n`)
    })
}

function readValidity (text: string): number {
  const seconds = readDuration(text)
  if (seconds === 0) throw new InvalidArgumentError('Give more than 0.')
  return seconds
}

export async function findUser (api: ManagementClient, email: string): Promise<number> {
  const user = (await api.get('/api/users')).results.find((each) => each.email === email.trim().toLowerCase())
  if (user !== undefined) return user.id
  throw new MillraceError('MILLRACE_USER_NOT_FOUND', `there is no user ${email}, or the key does not see other users`)
}

async function listKeys (api: ManagementClient): Promise<Key[]> {
  return await listAll(async (query) => await api.get('/api/personal_api_keys', { query }))
}

/** Finds a key by its mask. The API cannot look up keys by their text, which would end up in its log. */
async function findKey (api: ManagementClient, key: string): Promise<string> {
  const [found, ...others] = (await listKeys(api)).filter(({ mask_value: mask }) => mask === maskKey(key))
  if (found !== undefined && others.length === 0) return found.id
  throw new MillraceError('MILLRACE_KEY_NOT_FOUND', `${found === undefined ? 'no' : 'more than one'} personal key matches ${maskKey(key)}: use its id`)
}

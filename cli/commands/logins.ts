import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Command } from 'commander'
import { MillraceError } from '../../engines/errors.ts'
import type { Sql } from '../../platform/postgres/connect-postgres.ts'
import type { CliContext } from '../cli-context.ts'

/** The login of a tier in Postgres: its name, the role of roles.sql, the variable with its password. */
const POSTGRES_LOGINS = ['ingest', 'pipeline', 'api'].map((tier) =>
  ({ name: tier, role: `millrace_${tier}`, variable: `POSTGRES_${tier.toUpperCase()}_PASSWORD` }))

/** The marks of users.sql and analyst.sql, such as `<api password>`, and the variable of each. */
const CLICKHOUSE_LOGINS = ['owner', 'pipeline', 'api', 'analyst'].map((who) =>
  ({ mark: `<${who} password>`, variable: `CLICKHOUSE_${who.toUpperCase()}_PASSWORD` }))

/** The variables that `millrace logins create` reads; those of NATS go to nats-server itself. */
export const LOGIN_VARIABLES: readonly string[] =
  [...POSTGRES_LOGINS, ...CLICKHOUSE_LOGINS].map(({ variable }) => variable)

const DEPLOY = path.join(import.meta.dirname, '..', '..', 'deploy')

/** `millrace logins create`: for servers of one's own, where each tier logs in with the rights that it uses. */
export function addLoginsCommands (program: Command, context: CliContext): void {
  const logins = program.command('logins').description('logins of the tiers and of analysts on servers of your own')

  logins.command('create')
    .description('create the logins of each tier and of the analyst, or give them new passwords; after "migrate", as owner of\n' +
      'the Postgres database with CREATEROLE (DATABASE_URL) and administrator of ClickHouse (CLICKHOUSE_URL).\n' +
      `Passwords: ${LOGIN_VARIABLES.join(', ')}`)
    .action(async () => {
      const passwords = readPasswords(context.env)
      const clickhouse = await context.clickhouse()
      for (const query of await renderClickHouseLogins(passwords)) await clickhouse.command({ query })
      await createPostgresLogins(await context.postgres(), passwords)
      const names = POSTGRES_LOGINS.map(({ name }) => name).join(', ')
      context.stdout.write(`Postgres: ${names}\nClickHouse: millrace_owner, millrace_pipeline, millrace_api, analyst\n`)
    })
}

/** @throws {MillraceError} `MILLRACE_PASSWORDS_MISSING` naming every variable that is not set. */
export function readPasswords (env: NodeJS.ProcessEnv): Record<string, string> {
  const missing = LOGIN_VARIABLES.filter((name) => (env[name] ?? '') === '')
  if (missing.length > 0) throw new MillraceError('MILLRACE_PASSWORDS_MISSING', `no login was changed: set ${missing.join(', ')}`)
  return Object.fromEntries(LOGIN_VARIABLES.map((name) => [name, env[name]!]))
}

/** The statements of users.sql and analyst.sql, passwords still marks. */
export async function readClickHouseLogins (): Promise<string[]> {
  const texts = await Promise.all(['users.sql', 'analyst.sql'].map(async (name) =>
    await readFile(path.join(DEPLOY, 'clickhouse', name), 'utf8')))
  return texts.join('\n').replaceAll(/^--.*$/gm, '').split(';').map((part) => part.trim()).filter((part) => part !== '')
}

/** The same with these passwords. An existing login gets its new password. */
export async function renderClickHouseLogins (passwords: Record<string, string>): Promise<string[]> {
  return (await readClickHouseLogins()).flatMap((statement) => {
    const login = CLICKHOUSE_LOGINS.find(({ mark }) => statement.includes(`'${mark}'`))
    if (login === undefined) return [statement]
    const filled = statement.replace(`'${login.mark}'`, () => quoteForClickHouse(passwords[login.variable]!))
    const [, user, identified] = /^CREATE USER IF NOT EXISTS (\w+) (IDENTIFIED WITH \w+ BY '(?:[^'\\]|\\.)*')/.exec(filled) ?? []
    return [filled, `ALTER USER ${user} ${identified}`]
  })
}

/** Runs roles.sql and gives each tier its login, all or nothing. */
export async function createPostgresLogins (sql: Sql, passwords: Record<string, string>): Promise<void> {
  const roles = await readFile(path.join(DEPLOY, 'postgres', 'roles.sql'), 'utf8')
  await sql.begin(async (tx) => {
    await tx.unsafe(roles)
    for (const { name, role, variable } of POSTGRES_LOGINS) {
      const [existing] = await tx`SELECT 1 FROM pg_roles WHERE rolname = ${name}`
      if (existing === undefined) await tx.unsafe(`CREATE USER ${name} IN ROLE ${role}`)
      else await tx.unsafe(`GRANT ${role} TO ${name}`)
      const [statement] = await tx<{ text: string }[]>`
        SELECT format('ALTER USER %I LOGIN PASSWORD %L', ${name}::text, ${passwords[variable]!}::text) AS text`
      await tx.unsafe(statement!.text)
    }
  })
}

function quoteForClickHouse (text: string): string {
  return `'${text.replaceAll(/[\\']/g, '\\$&')}'`
}

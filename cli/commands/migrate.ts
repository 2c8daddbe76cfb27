import { type Command, InvalidArgumentError } from 'commander'
import { migrateAll } from '../../schema/migrate/migrate-all.ts'
import { type CliContext, findAddress } from '../cli-context.ts'

/** `millrace migrate`. */
export function addMigrateCommands (program: Command, context: CliContext): void {
  program.command('migrate')
    .description('bring the schemas of Postgres and ClickHouse (DATABASE_URL, CLICKHOUSE_URL) up to this version')
    .action(async () => {
      const { env, stdout } = context
      if (!env.DATABASE_URL !== !env.CLICKHOUSE_URL) throw new InvalidArgumentError('set DATABASE_URL and CLICKHOUSE_URL, or neither')
      // A server that hangs ends the command, and one that does not answer is named.
      await Promise.all([context.postgres(), context.clickhouse()])
      const cluster = await context.cluster()
      const created: string[] = []
      const applied = await migrateAll({
        databaseUrl: await findAddress(env, 'DATABASE_URL'), clickhouseUrl: await findAddress(env, 'CLICKHOUSE_URL'),
        topology: cluster === '' ? {} : { cluster }, onCreated: (names) => created.push(...names)
      })
      if (created.length > 0) stdout.write(`created on nodes that lacked them: ${created.join(', ')}\n`)
      if (applied.length > 0) stdout.write(`applied ${applied.join(', ')}\n`)
      else if (created.length === 0) stdout.write('nothing to migrate\n')
    })
}

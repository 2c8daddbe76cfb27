import { MillraceError } from '../../engines/errors.ts'
import { migrateAll } from './migrate-all.ts'

const { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, MILLRACE_CLICKHOUSE_CLUSTER: cluster } = process.env
if (!databaseUrl || !clickhouseUrl) {
  process.stderr.write('migrate needs DATABASE_URL and CLICKHOUSE_URL\n')
  process.exit(1)
}
const created: string[] = []
const applied = await migrateAll({
  databaseUrl, clickhouseUrl, topology: cluster ? { cluster } : {},
  onCreated: (names) => created.push(...names)
}).catch((error: unknown) => {
  if (!(error instanceof MillraceError)) throw error
  process.stderr.write(`migrate: ${error.message}\n`)
  process.exit(1)
})
if (created.length > 0) process.stdout.write(`created on nodes that lacked them: ${created.join(', ')}\n`)
if (applied.length > 0) process.stdout.write(`applied ${applied.join(', ')}\n`)
else if (created.length === 0) process.stdout.write('nothing to migrate\n')

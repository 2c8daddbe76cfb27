import { migrateAll } from './migrate-all.ts'

const { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, MILLRACE_CLICKHOUSE_CLUSTER: cluster } = process.env
if (!databaseUrl || !clickhouseUrl) {
  process.stderr.write('migrate needs DATABASE_URL and CLICKHOUSE_URL\n')
  process.exit(1)
}
const applied = await migrateAll({ databaseUrl, clickhouseUrl, topology: cluster ? { cluster } : {} })
process.stdout.write(applied.length === 0 ? 'nothing to migrate\n' : `applied ${applied.join(', ')}\n`)

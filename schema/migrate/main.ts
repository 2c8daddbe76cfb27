import { migrateAll } from './migrate-all.ts'
import { MigrationError } from './read-migrations.ts'
import { howToApply } from './schema-versions.ts'

const { DATABASE_URL: databaseUrl, CLICKHOUSE_URL: clickhouseUrl, MILLRACE_CLICKHOUSE_CLUSTER: cluster } = process.env
if (!databaseUrl || !clickhouseUrl) {
  process.stderr.write('migrate needs DATABASE_URL and CLICKHOUSE_URL\n')
  process.exit(1)
}
let byHand: string[] = []
const onFilesByHand = (files: string[]): void => { byHand = files }
const applied = await migrateAll({ databaseUrl, clickhouseUrl, topology: cluster ? { cluster } : {}, onFilesByHand })
  .catch((error: unknown) => {
    if (!(error instanceof MigrationError)) throw error
    process.stderr.write(`migrate: ${error.message}\n`)
    process.exit(1)
  })
process.stdout.write(applied.length === 0 ? 'nothing to migrate\n' : `applied ${applied.join(', ')}\n`)
for (const file of byHand) process.stdout.write(`by hand: ${file}: ${howToApply(file)}\n`)

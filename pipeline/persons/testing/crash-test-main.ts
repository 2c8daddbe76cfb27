/**
 * The person applier as a process of its own that dies by SIGKILL right after the commit of every n-th
 * transaction, before it can acknowledge. Run by tests only.
 *
 * Environment: the addresses, and `MILLRACE_TEST_COMMITS`, after how many commits it dies (0: never).
 */
import { connectClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { connectNats } from '../../../platform/nats/connect-nats.ts'
import { connectPostgres, type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { createLogger } from '../../../platform/logger.ts'
import { createMetrics } from '../../../platform/metrics.ts'
import { startPersons } from '../start-persons.ts'

const { NATS_URL = '', DATABASE_URL = '', CLICKHOUSE_URL = '', MILLRACE_TEST_COMMITS = '0' } = process.env
const { MILLRACE_TEST_BATCH_BYTES = '65536' } = process.env
const logger = createLogger({ component: 'test', level: process.env.MILLRACE_TEST_LOG_LEVEL ?? 'silent' })
let commitsLeft = Number(MILLRACE_TEST_COMMITS)

const persons = startPersons({
  connection: await connectNats({ url: NATS_URL, name: 'persons', logger }),
  sql: dieAfterCommit(connectPostgres({ url: DATABASE_URL })),
  clickhouse: connectClickHouse({ url: CLICKHOUSE_URL }),
  membership: { id: 'only', living: () => ['only'] },
  metrics: createMetrics('test'),
  maxBatchBytes: Number(MILLRACE_TEST_BATCH_BYTES),
  logger
})
// The pipe from the test ends with it, however it ends.
process.stdin.resume().once('end', () => process.exit(1))
process.once('SIGTERM', () => { void persons.stop().then(() => process.exit(0)) })

function dieAfterCommit (sql: Sql): Sql {
  return new Proxy(sql, {
    get (target, name) {
      const value = Reflect.get(target, name) as unknown
      if (name !== 'begin') return value
      return async (...begin: Parameters<Sql['begin']>) => {
        const result = await target.begin(...begin)
        if (--commitsLeft === 0) process.kill(process.pid, 'SIGKILL')
        return result
      }
    }
  })
}

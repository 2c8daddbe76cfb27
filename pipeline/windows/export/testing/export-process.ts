/**
 * A process that exports, and kills itself at a step.
 *
 * Environment: DATABASE_URL, CLICKHOUSE_URL, FOLDER, and KILL_AT: the number of the step, from 1; 0: none.
 */
import { connectClickHouse } from '../../../../platform/clickhouse/connect-clickhouse.ts'
import { connectPostgres } from '../../../../platform/postgres/connect-postgres.ts'
import { startExports } from './export-fixture.ts'

const { DATABASE_URL = '', CLICKHOUSE_URL = '', FOLDER = '', KILL_AT = '0' } = process.env
const sql = connectPostgres({ url: DATABASE_URL, max: 3 })
let steps = 0
startExports({ sql, clickhouse: connectClickHouse({ url: CLICKHOUSE_URL }) }, {
  folder: FOLDER,
  // A process that waits for a busy machine keeps it; whoever kills one ends its lease.
  leaseMs: 30_000,
  fileRows: 15,
  async onStep () {
    if (++steps !== Number(KILL_AT)) return
    process.kill(process.pid, 'SIGKILL')
    // Nothing after it may run before the signal arrives.
    await new Promise(() => {})
  }
})
// Loops do not keep a process alive.
setInterval(() => {}, 1000)

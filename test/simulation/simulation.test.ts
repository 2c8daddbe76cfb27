import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { createClickHouseAgent, createInsertFrames } from '../../pipeline/events/insert/insert-frames.ts'
import { startTestStores } from '../../pipeline/testing/start-test-partition.ts'
import { createTestPostgres } from '../support/test-stores.ts'
import { takeContractSteps } from './contract-steps.ts'

/** Its clock and timers are not those of a test, so it is a process of its own. */
const MAIN = path.join(import.meta.dirname, 'main') + '.ts'

const SEEDS = 100

t.test('every event is stored once, and nothing waits for ever, whatever goes wrong', async (t) => {
  const { NODE_OPTIONS: _, ...env } = process.env
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath, ['--max-semi-space-size=64', MAIN, '--seeds', String(SEEDS)], { env }
  ).catch((error: unknown) => error as { stdout: string, stderr: string })

  t.match(stdout, new RegExp(`^${SEEDS} seeds from `, 'm'), stderr)
})

t.test('stores in memory answer as NATS, ClickHouse and Postgres do', async (t) => {
  const { connection, clickhouse } = await startTestStores(t)
  const { sql } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'simulated')`
  const agent = createClickHouseAgent()
  t.teardown(() => agent.destroy())
  const { NODE_OPTIONS: _, ...env } = process.env

  const real = await takeContractSteps({
    connection, clickhouse: clickhouse.client, insertFrames: createInsertFrames({ url: clickhouse.url, agent }), sql
  })
  const simulated = await promisify(execFile)(process.execPath, ['--max-semi-space-size=64', MAIN, '--contract'], { env })

  t.ok(real.length > 20)
  t.same(JSON.parse(simulated.stdout), JSON.parse(JSON.stringify(real)))
})

import { readdirSync, statSync, truncateSync } from 'node:fs'
import path from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { connectClickHouse } from '../../platform/clickhouse/connect-clickhouse.ts'
import { createMetrics } from '../../platform/metrics.ts'
import { startTestServer, TEST_PASSWORDS } from 'chdb-server/testing'
import { waitFor } from '../support/wait-for.ts'
import { type ClickHouseWatch, watchClickHouse } from '../../pipeline/health/watch-clickhouse.ts'

t.test('a part that ClickHouse found broken when it started is an error in the log, in health and in the metrics', async (t) => {
  const server = await startTestServer(t, { owner: 'millrace', database: 'millrace' })
  await server.ask('CREATE TABLE millrace.k (a UInt64) ENGINE MergeTree ORDER BY a')
  for (const body of ['1', '2']) await server.ask('INSERT INTO millrace.k FORMAT CSV', { body })
  const { text } = await server.ask("SELECT path FROM system.parts WHERE database = 'millrace' AND name = 'all_2_2_0'")
  const said: Record<string, unknown>[] = []
  const logger = pino({}, { write: (line) => { said.push(JSON.parse(line) as Record<string, unknown>) } })

  const fine = watch(server.port)
  await waitFor(async () => await fine.gauge() === 0)
  t.match(fine.watch.parts()[0], { healthy: true, broken: 0 })

  await server.stop('SIGKILL')
  for (const file of readdirSync(text.trim())) {
    // What a power failure leaves of a file that was not flushed: its name.
    if (statSync(path.join(text.trim(), file)).isFile()) truncateSync(path.join(text.trim(), file))
  }
  await server.restart()
  const { watch: broken, gauge } = watch(server.port)

  await waitFor(() => broken.parts()[0]?.healthy === false)
  t.match(broken.parts()[0], { broken: 1, parts: [{ table: 'k', name: /all_2_2_0/, reason: /broken/ }] })
  t.equal(await gauge(), 1)
  t.match(said.filter(({ level }) => level === 50), [{ table: 'k', msg: /detached a broken part/ }])

  function watch (port: number): { watch: ClickHouseWatch, gauge: () => Promise<number | undefined> } {
    const clickhouse = connectClickHouse({ url: `http://millrace:${encodeURIComponent(TEST_PASSWORDS.owner)}@127.0.0.1:${port}/millrace` })
    const metrics = createMetrics('test')
    const watch = watchClickHouse({ clickhouse, cluster: '', metrics, logger })
    t.teardown(async () => {
      watch.stop()
      await clickhouse.close()
    })
    const gauge = async (): Promise<number | undefined> =>
      (await metrics.registry.getSingleMetric('millrace_test_clickhouse_broken_parts')?.get())?.values[0]?.value
    return { watch, gauge }
  }
})

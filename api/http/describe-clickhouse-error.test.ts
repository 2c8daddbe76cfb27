import t from 'tap'
import { createTestClickHouse } from '../../test/support/test-stores.ts'
import { HttpError } from '../../engines/errors.ts'
import { connectClickHouse, queryRows } from '../../platform/clickhouse/connect-clickhouse.ts'
import { describeClickHouseError } from './describe-clickhouse-error.ts'

const { url, client } = await createTestClickHouse(t)

/** @returns the answer to the error of a query. */
async function answerTo (query: Promise<unknown>, what?: string): Promise<unknown> {
  const error: unknown = await query.then(() => null, (cause: unknown) => cause)
  return describeClickHouseError(error, what)
}

t.test('a query that meets its limit of time is told from a ClickHouse that is away', async (t) => {
  const slow = queryRows(client, 'SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number)) SETTINGS max_execution_time = 1', {})

  t.match(await answerTo(slow), {
    status: 503, code: 'clickhouse_timeout', detail: 'ClickHouse took longer than the 1 s that this may take; try again later.'
  })
})

t.test('so is one that the client does not wait for', async (t) => {
  const impatient = connectClickHouse({ url, requestTimeoutMs: 50 })
  t.teardown(async () => await impatient.close())

  t.match(await answerTo(queryRows(impatient, 'SELECT sleep(1)', {}), 'which has it'), {
    code: 'clickhouse_timeout', detail: 'ClickHouse, which has it, took longer than this may take; try again later.'
  })
})

t.test('whatever else may pass is called unavailable, and the rest is left as it is', async (t) => {
  const nobody = connectClickHouse({ url: 'http://127.0.0.1:1' })
  t.teardown(async () => await nobody.close())

  t.match(await answerTo(queryRows(nobody, 'SELECT 1', {})), { status: 503, code: 'clickhouse_unavailable' })
  t.match(await answerTo(queryRows(client, 'SELECT 1 FROM no_such_table', {})), { code: '60' })
  const ours = new HttpError(404, 'invalid_request', 'not_found', 'Not found.')
  t.equal(describeClickHouseError(ours), ours)
})

import t from 'tap'
import type { ClickHouse } from './connect-clickhouse.ts'
import { waitForReplicas } from './wait-for-replicas.ts'

const UP_TO_DATE = { isBehind: 0, newest: 7, next: 8, shards: 2 }
const FIRST = { ...UP_TO_DATE, path: 'shard 1', replica: 'a' }
const SECOND = { ...UP_TO_DATE, path: 'shard 1', replica: 'b' }
const OTHER = { ...UP_TO_DATE, path: 'shard 2', replica: 'c' }

/** ClickHouse that gives these answers in turn, then the last one again and again. */
function answerInTurn (answers: readonly unknown[][]): { clickhouse: ClickHouse, asked: () => number } {
  let asked = 0
  const query = async (): Promise<unknown> => ({ json: async () => answers[Math.min(asked++, answers.length - 1)] })
  return { clickhouse: { query } as unknown as ClickHouse, asked: () => asked }
}

async function countPolls (answers: readonly unknown[][], timeoutMs?: number): Promise<number> {
  const { clickhouse, asked } = answerInTurn(answers)
  await waitForReplicas({ clickhouse, cluster: 'millrace', ...timeoutMs === undefined ? {} : { timeoutMs } })
  return asked()
}

t.test('waits until each replica was seen with all that was confirmed when the wait began', async (t) => {
  t.equal(await countPolls([[FIRST, SECOND, OTHER]]), 1)
  t.equal(await countPolls([[FIRST, { ...SECOND, isBehind: 1 }, OTHER], [FIRST, SECOND, OTHER]]), 2, 'inserts to copy')
  t.equal(await countPolls([[FIRST, { ...SECOND, next: 7 }, OTHER], [FIRST, SECOND, OTHER]]), 2, 'an entry that is not read')
  t.equal(await countPolls([
    [{ ...FIRST, newest: 9 }, SECOND, OTHER], [{ ...FIRST, next: 10 }, { ...SECOND, next: 10 }, OTHER]
  ]), 2, 'the newest entry that any replica knows of')
  t.equal(await countPolls([
    [FIRST, { ...SECOND, isBehind: 1 }, OTHER], [{ ...FIRST, isBehind: 1 }, SECOND, { ...OTHER, newest: 12 }]
  ]), 2, 'not all at one moment, and nothing that was confirmed since')
  t.equal(await countPolls([[FIRST, OTHER]]), 1, 'a dead replica is not waited for')
  t.equal(await countPolls([[FIRST, { ...OTHER, newest: 0, next: 0 }]]), 1, 'nothing was ever inserted')
})

t.test('asks again when a node broke off, and does not when it may not ask', async (t) => {
  const failing = (code: string): { clickhouse: ClickHouse, asked: () => number } => {
    const { clickhouse, asked } = answerInTurn([[FIRST, SECOND, OTHER]])
    let failures = 1
    const query = async (...parameters: Parameters<ClickHouse['query']>): Promise<unknown> => {
      if (failures-- > 0) throw Object.assign(new Error('no answer'), { code })
      return await clickhouse.query(...parameters)
    }
    return { clickhouse: { query } as unknown as ClickHouse, asked }
  }
  const broken = failing('209')
  await waitForReplicas({ clickhouse: broken.clickhouse, cluster: 'millrace' })
  t.equal(broken.asked(), 1)
  await t.rejects(waitForReplicas({ clickhouse: failing('497').clickhouse, cluster: 'millrace' }), { code: '497' })
})

t.test('waits for nobody on one node', async (t) => {
  const { clickhouse, asked } = answerInTurn([])
  await waitForReplicas({ clickhouse, cluster: '' })
  t.equal(asked(), 0)
})

t.test('gives up while a replica that answers lacks something, and when a shard does not answer', async (t) => {
  await t.rejects(countPolls([[FIRST, { ...SECOND, isBehind: 1 }, OTHER]], 0),
    { code: 'MILLRACE_REPLICAS_BEHIND', action: 'retry', message: 'replicas lack what others confirmed: b' })
  await t.rejects(countPolls([[FIRST, SECOND]], 0), { message: 'no replica of a shard answers' })
  await t.rejects(countPolls([[]], 0), { code: 'MILLRACE_REPLICAS_BEHIND' })
})

import t from 'tap'
import type { ClickHouse } from '../../../platform/clickhouse/connect-clickhouse.ts'
import { createLookUpEvents, type EventIdentity } from './look-up-events.ts'

/** ClickHouse that gives these answers in turn. */
function answerInTurn (answers: readonly unknown[][]): { clickhouse: ClickHouse, asked: () => number } {
  let asked = 0
  const query = async (): Promise<unknown> => ({ json: async () => answers[asked++] })
  return { clickhouse: { query } as unknown as ClickHouse, asked: () => asked }
}

t.test('an event that a replica lacks is stored when the replica has caught up', async (t) => {
  const event = (uuidHex: string): EventIdentity =>
    ({ projectId: 1, uuidHex: uuidHex.repeat(16), event: Buffer.from('paid'), distinctId: Buffer.from('a'), day: 20_000 })
  const stored = (uuidHex: string): unknown[] => [1, uuidHex.repeat(16), '70616964', '61', 20_000]
  const { clickhouse, asked } = answerInTurn([[stored('01')], [stored('02')], [stored('01')]])
  let waits = 0
  const lookUpEvents = createLookUpEvents(clickhouse, async () => { waits++ })

  t.same(await lookUpEvents([event('01'), event('02'), event('03')]), [true, true, false])
  t.same([asked(), waits], [2, 1])
  t.same(await lookUpEvents([event('01')]), [true], 'what is found is stored, whoever lacks it')
  t.same([asked(), waits], [3, 1])
})

import t from 'tap'
import { createTestPostgres } from '../../test/support/test-stores.ts'
import { loadRecentUpdates, openProgress } from './persons-progress.ts'
import { type PersonsBatch, readPersonsMessage } from './persons-message.ts'
import { origin, readPersons } from './testing/start-persons-stores.ts'
import { applyBatch } from './apply-batch.ts'

const PARTITION = 1

function batchOf (sequence: number, ...updates: object[]): PersonsBatch {
  const message = readPersonsMessage(Buffer.from(JSON.stringify(updates)), { sequence, publishedUs: sequence })
  return { partition: PARTITION, streamCreated: 'monday', messages: [message] }
}

function person (distinctId: string): object {
  return { ...origin(), kind: 'person', distinctId, set: { name: distinctId } }
}

t.test('applies nothing while its recent updates lack those that another process applied', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one')`
  await openProgress(sql, PARTITION)
  const deadLetterUpdates = async (): Promise<[]> => []
  const mine = { sql, deadLetterUpdates, recent: await loadRecentUpdates(sql, PARTITION) }
  const other = { sql, deadLetterUpdates, recent: await loadRecentUpdates(sql, PARTITION) }
  const update = person('a')

  await applyBatch(batchOf(1, update), other)
  await t.rejects(applyBatch(batchOf(2, person('b')), mine), { code: 'MILLRACE_PERSONS_PROGRESS_STALE', action: 'retry' })
  t.match(await readPersons(sql, 1), [{ distinctIds: ['a'] }])

  const applied = await applyBatch(batchOf(2, update, person('b')), {
    ...mine, recent: await loadRecentUpdates(sql, PARTITION)
  })
  t.match(applied, { deduplicated: 1, applied: { person: 1 } })
})

t.test('changes nothing while refused updates cannot be dead-lettered', async (t) => {
  const { sql } = await createTestPostgres(t)
  await sql`INSERT INTO projects (id, name) VALUES (1, 'one')`
  await openProgress(sql, PARTITION)
  const silent = new Error('the dead-letter stream does not answer')
  const kept: string[] = []
  const batch = batchOf(1, person('a'), { kind: 'guess' })
  const recent = await loadRecentUpdates(sql, PARTITION)

  await t.rejects(applyBatch(batch, { sql, recent, deadLetterUpdates: async () => { throw silent } }), silent)
  t.same(await readPersons(sql, 1), [])
  await applyBatch(batch, {
    sql,
    recent,
    deadLetterUpdates: async (_, refused) => {
      kept.push(...refused.map(({ reason }) => reason))
      return []
    }
  })

  t.match(await readPersons(sql, 1), [{ distinctIds: ['a'] }])
  t.same(kept, ['invalid_update'])
})

import t from 'tap'
import type { OutgoingMessage } from '../publish/acknowledged-publisher.ts'
import { publishPortion } from './drain-spool.ts'
import type { SpooledMessage } from './segment-reader.ts'

function spool (messages: readonly (Pick<OutgoingMessage, 'subject' | 'id'> & { text?: string })[]): SpooledMessage[] {
  return messages.map(({ subject, id, text = `["${id}"]` }, index) => ({
    message: { subject, id, headers: {}, payload: Buffer.from(text) }, end: { segment: 1, offset: index + 1 }
  }))
}

/** Events and updates of two partitions in turns, as a spool has them. */
function spoolInTurns (count: number): SpooledMessage[] {
  return spool(Array.from({ length: count }, (_, index) => ({
    subject: index % 2 === 0 ? 'events.live.0' : `persons.${index % 4 === 1 ? 1 : 2}`, id: `m-${index}`
  })))
}

const readIds = ({ payload }: OutgoingMessage): string[] => JSON.parse(Buffer.from(payload).toString()) as string[]

t.test('updates that follow each other travel together, in their order by partition', async (t) => {
  const published: OutgoingMessage[] = []
  const result = await publishPortion(spoolInTurns(400), {
    ahead: new Set(), publish: async (message) => { published.push(message) }
  })

  t.equal(result.published, 400)
  const updates = published.filter(({ subject }) => subject.startsWith('persons.'))
  t.same(updates.map(({ subject }) => subject).sort(), ['persons.1', 'persons.2'], 'one message of each partition')
  for (const [partition, rest] of [[1, 1], [2, 3]] as const) {
    const ids = updates.filter(({ subject }) => subject === `persons.${partition}`).flatMap(readIds)
    t.same(ids, Array.from({ length: 100 }, (_, index) => `m-${index * 4 + rest}`))
  }
  t.equal(published.length, 202, 'events stay messages of their own')
})

t.test('a message of updates stays below half a megabyte, and one that is no list stays alone', async (t) => {
  const large = JSON.stringify(['x'.repeat(200_000)])
  const published: number[] = []
  await publishPortion(spool([
    ...[1, 2, 3, 4, 5].map((id) => ({ subject: 'persons.0', id: String(id), text: large })),
    { subject: 'persons.0', id: '6', text: 'torn' }, { subject: 'persons.0', id: '7' }, { subject: 'persons.0', id: '8' }
  ]), { ahead: new Set(), publish: async ({ payload }) => { published.push(payload.length) } })

  t.same(published, [400_007, 400_007, 200_004, 4, 9])
})

t.test('after a failure nothing that was published is published again, and no update overtakes another', async (t) => {
  const spooled = spoolInTurns(100)
  const ahead = new Set<string>()
  const times = new Map<string, number>()
  const order: string[] = []
  let calls = 0
  const publish = async (message: OutgoingMessage): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve))
    if (++calls % 7 === 0) throw new Error('unavailable')
    for (const id of readIds(message)) {
      times.set(id, (times.get(id) ?? 0) + 1)
      order.push(id)
    }
  }
  let at = 0
  for (let round = 0; at < spooled.length && round < 100; round++) {
    const { published, failure } = await publishPortion(spooled.slice(at), { publish, ahead })
    t.ok(at + published === spooled.length ? failure === undefined : failure instanceof Error)
    at += published
  }

  t.equal(at, 100)
  t.same([...times.values()], Array.from({ length: 100 }, () => 1))
  t.equal(ahead.size, 0, 'nothing is remembered longer than needed')
  for (const rest of [1, 3]) {
    const own = order.map((id) => Number(id.slice(2))).filter((index) => index % 4 === rest)
    t.same(own, own.toSorted((a, b) => a - b))
  }
})

t.test('updates that their stream refuses hold up no event behind them', async (t) => {
  const ahead = new Set<string>()
  const arrived: string[] = []
  const { published, failure } = await publishPortion(spool([
    { subject: 'persons.1', id: 'update' }, { subject: 'events.live.0', id: 'event 1' },
    { subject: 'warnings.ingest', id: 'warning' }, { subject: 'events.live.0', id: 'event 2' }
  ]), {
    ahead,
    publish: async (message) => {
      if (/^(persons|warnings)/.test(message.subject)) throw new Error('full')
      await new Promise((resolve) => setImmediate(resolve))
      arrived.push(message.id)
    }
  })

  t.same(arrived, ['event 1', 'event 2'])
  t.match(failure, { message: 'full' })
  t.equal(published, 0, 'the update comes first again')
  t.same([...ahead], ['event 1', 'event 2'])
})

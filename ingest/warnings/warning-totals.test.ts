import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { createLogger } from '../../platform/logger.ts'
import { toWarningRow, type WarningsMessage } from '../../schema/wire/ingestion-warnings.ts'
import type { RequestWarnings } from '../event.ts'
import { WarningTotals } from './warning-totals.ts'

const MINUTE = 1_800_000_000_000 - 1_800_000_000_000 % 60_000
const SAMPLE = { receivedAt: MINUTE, event: 'e', distinctId: 'd', uuid: '', lib: '', libVersion: '', value: '' }
const warned = (count: number): RequestWarnings => ({
  counts: [{ reason: 'missing_event_name', count, samples: [SAMPLE] }], drops: []
})

/** A publisher that fails on demand, and collects published messages. */
function createPublisher () {
  const published: WarningsMessage[] = []
  const publisher = { fails: false, at: MINUTE, published, waitMs: 0 }
  const totals = new WarningTotals({
    source: 'p1',
    nextMessageId: () => 'id',
    logger: createLogger({ component: 'test', level: 'silent' }),
    now: () => publisher.at,
    publish: async ({ payload }) => {
      await delay(publisher.waitMs)
      if (publisher.fails) throw new Error('neither stream nor spool')
      published.push(JSON.parse(Buffer.from(payload).toString()) as WarningsMessage)
    }
  })
  return { publisher, totals }
}

t.test('a request waits until its warnings are published, and shares the message', async (t) => {
  const { publisher, totals } = createPublisher()
  publisher.waitMs = 50

  await Promise.all([totals.add(1, warned(2)), totals.add(1, warned(3)), totals.add(2, warned(1))])

  t.match(publisher.published, [{
    source: 'p1', totals: [{ projectId: 1, reason: 'missing_event_name', minute: MINUTE, count: 5 }, { projectId: 2, count: 1 }]
  }])
})

t.test('each rule and each schema has a total of its own; nobody waits for what rules changed', async (t) => {
  const { publisher, totals } = createPublisher()
  const definitions = [
    { schema: 7, reason: 'schema_not_met', count: 2, samples: [SAMPLE] }, { schema: 8, reason: 'schema_not_met', count: 1, samples: [] },
    { rule: 7, reason: 'rule_dropped', count: 4, samples: [] }, { schema: 7, reason: 'schema_quarantined', count: 1, samples: [] }
  ] as const

  await totals.add(1, { counts: [{ rule: 7, reason: 'rule_changed', count: 1, samples: [] }], drops: [] })
  t.same(publisher.published, [])
  for (let times = 0; times < 2; times++) {
    const noted = definitions.map((each) => ({ ...each, samples: [...each.samples] }))
    await totals.add(1, { counts: noted, drops: [] })
  }
  await totals.close()

  const highest = new Map(publisher.published.flatMap((message) => message.totals.map((total) => {
    const { source, reason } = toWarningRow(message.source, total)
    return [`${String(source)} ${String(reason)}`, total.count]
  })))
  t.same([...highest].sort(), [
    ['p1/rule/7 rule_changed', 1], ['p1/rule/7 rule_dropped', 8], ['p1/schema/7 schema_not_met', 4], ['p1/schema/7 schema_quarantined', 2],
    ['p1/schema/8 schema_not_met', 2]
  ])
})

t.test('each message has the total of the minute so far, and samples once', async (t) => {
  const { publisher, totals } = createPublisher()

  await totals.add(1, warned(2))
  await totals.add(1, warned(3))
  publisher.at = MINUTE + 60_000
  await totals.add(1, warned(4))
  publisher.at = MINUTE
  await totals.add(1, warned(5))

  t.match(publisher.published.flatMap(({ totals }) => totals), [
    { minute: MINUTE, count: 2, samples: [SAMPLE] },
    { minute: MINUTE, count: 5, samples: [SAMPLE] },
    { minute: MINUTE + 60_000, count: 4 },
    { minute: MINUTE + 60_000, count: 9 }
  ], 'a clock that was set back opens no minute again')
})

t.test('what could not be published is refused to the request, and in the next message', async (t) => {
  const { publisher, totals } = createPublisher()
  publisher.fails = true
  await t.rejects(totals.add(1, warned(2)), { message: 'neither stream nor spool' })
  publisher.fails = false

  await totals.add(2, warned(1))

  const totalsOf = publisher.published[0]?.totals ?? []
  t.match(totalsOf.toSorted((a, b) => a.projectId - b.projectId), [
    { projectId: 1, count: 2, samples: { length: 1 } }, { projectId: 2, count: 1, samples: { length: 1 } }
  ])
})

t.test('of events that go on not being stored, three cases are kept at once and one each second after that', async (t) => {
  const { publisher, totals } = createPublisher()
  const sampleTimes = [0, 100, 200, 300, 900, 1300, 1400, 2400, 3300, 59_000]

  for (const after of sampleTimes) {
    publisher.at = MINUTE + after
    for (const reason of ['rate_limited', 'wrong_key'] as const) {
      totals.addRefused(1, reason, () => ({ ...SAMPLE, receivedAt: publisher.at }))
    }
  }
  await totals.close()

  const timesOf = (reason: string): number[] => publisher.published.flatMap((message) => message.totals)
    .filter((total) => total.reason === reason).flatMap(({ samples }) => samples)
    .map(({ receivedAt }) => receivedAt - MINUTE)
  t.same(timesOf('rate_limited'), [0, 100, 200, 1300, 2400, 59_000])
  t.same(timesOf('wrong_key'), [0, 100, 200], 'whoever has no key of a project fills no table')
})

t.test('refused requests wait for nobody, and are published within a second or at the end', async (t) => {
  const { publisher, totals } = createPublisher()
  for (let n = 0; n < 1000; n++) totals.addRefused(1, 'rate_limited', () => SAMPLE)

  await totals.close()

  t.match(publisher.published, [{ totals: [{ reason: 'rate_limited', count: 1000, samples: { length: 3 } }] }])
})

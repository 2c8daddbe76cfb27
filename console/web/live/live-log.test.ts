import t from 'tap'
import {
  acceptsEvent, describeCounts, describeFate, type FeedBatch, isShown, KEPT_EVENTS, type LiveEvent, type LiveFilter,
  LiveLog, toCurl
} from './live-log.ts'

const all: LiveFilter = { key: '', lib: '', fate: '', property: '', operator: '=', value: '' }
const sent = JSON.stringify({ event: 'paid', properties: { plan: 'pro', amount: 5, nested: { a: 1 } } })

function arrive (number: number, fields: object = {}): FeedBatch['events'][number] {
  return {
    number, at: 1000, event: 'paid', distinctId: 'ann', uuid: 'u', lib: 'web', libVersion: '1.2.0', key: 'phc_abcd…', drop: null, isQuarantined: false, sent, sentCharacters: 0, ...fields
  }
}

function collect (...batches: Partial<FeedBatch>[]): LiveLog {
  const log = new LiveLog()
  log.beginFeed()
  for (const { events = [], fates = [] } of batches) log.add({ events, fates }, () => true)
  return log
}

t.test('events get their fates, also later', (t) => {
  const log = collect(
    { events: [arrive(0), arrive(1), arrive(2, { drop: 'missing_distinct_id' }), arrive(3)] },
    { fates: [{ number: 0, fate: 'stored', at: 1120 }, { number: 3, fate: 'duplicate', at: 1100 }, { number: 9, fate: 'stored', at: 0 }] }
  )

  t.same(log.events.map(describeFate), ['stored after 120 ms', 'waiting', 'dropped: missing_distinct_id', 'duplicate'])
  log.beginFeed()
  log.add({ events: [arrive(0)], fates: [{ number: 1, fate: 'stored', at: 5 }] }, () => true)
  t.same(log.events.map(describeFate), ['stored after 120 ms', 'not followed', 'dropped: missing_distinct_id', 'duplicate', 'waiting'])
  t.equal(new Set(log.events.map(({ id }) => id)).size, 5)
  t.same(collect({ events: [arrive(0, { isQuarantined: true })] }).events.map(describeFate), ['dead letter: schema not met'])
  t.end()
})

t.test('keeps a bounded number of events, the newest', (t) => {
  const log = collect(...Array.from({ length: 5 }, (_, batch) => ({
    events: Array.from({ length: 1000 }, (_, index) => arrive(batch * 1000 + index))
  })))

  t.equal(log.events.length, KEPT_EVENTS)
  t.equal(log.events.at(-1)!.id, '1-4999')
  t.equal(log.added, 5000)
  t.end()
})

t.test('shows what the filter asks for', (t) => {
  const [event, cut] = collect({ events: [arrive(0), arrive(1, { sent: '{"prop', sentCharacters: 20_000 })] }).events as [LiveEvent, LiveEvent]
  const passes = (filter: Partial<LiveFilter>, what = event): boolean => isShown(what, { ...all, ...filter })

  t.ok(passes({}))
  t.same([passes({ key: 'phc_abcd' }), passes({ key: 'phc_abcdefgh' }), passes({ key: 'phc_x' })], [true, true, false])
  t.same([passes({ lib: 'web' }), passes({ lib: '1.2' }), passes({ lib: 'python' })], [true, true, false])
  t.same([passes({ fate: 'waiting' }), passes({ fate: 'stored' })], [true, false])
  t.same([passes({ property: 'plan', value: 'pro' }), passes({ property: 'plan', value: 'free' }), passes({ property: 'amount', value: '5' })], [true, false, true])
  t.same([passes({ property: 'nested', value: '{"a":1}' }), passes({ property: 'none', value: '' })], [true, false])
  t.same(['pro', 'free'].map((value) => passes({ property: 'plan', operator: '!=', value })), [false, true])
  t.ok(passes({ property: 'none', operator: '!=', value: 'x' }), 'what is absent differs')
  t.notOk(passes({ property: 'plan', operator: '!=', value: 'x' }, cut), 'what cannot be read is not shown')
  const [ofSegment] = collect({ events: [arrive(0, { sent: '{"traits":{"plan":"pro"}}' })] }).events
  t.ok(acceptsEvent(ofSegment!, { ...all, property: 'plan', value: 'pro' }))
  t.end()
})

t.test('says whether it shows all', (t) => {
  const cases = [{ matched: 1, shown: 1 }, { matched: 1200, shown: 1200 }, { matched: 50_000, shown: 1000 }]
  t.same(cases.map(describeCounts),
    ['1 event', '1,200 events', 'Sampled: 1,000 of 50,000 events'])
  t.end()
})

t.test('an event becomes a command, whatever it holds', (t) => {
  t.equal(toCurl({ sent: '{"event":"it\'s $HOME"}' }, 'https://e.example'),
    String.raw`curl 'https://e.example/batch/' -H 'content-type: application/json' -d '{"api_key":"<project API key>","batch":[{"event":"it'\''s $HOME"}]}'`)
  t.end()
})

import t from 'tap'
import {
  acceptsEvent, describeCounts, describeFate, type FeedBatch, KEPT_EVENTS, type LiveEvent, type LiveFilter, LiveLog,
  toCurl
} from './live-log.ts'

const all: LiveFilter = { key: '', lib: '', fate: '', property: '', operator: '=', value: '' }
const sent = JSON.stringify({ event: 'paid', properties: { plan: 'pro', amount: 5, nested: { a: 1 } } })

function arrive (fields: object = {}): FeedBatch['events'][number] {
  return {
    at: 1000, event: 'paid', distinctId: 'ann', uuid: 'u', lib: 'web', libVersion: '1.2.0', key: 'phc_abcd…', drop: null, isQuarantined: false, sent, sentCharacters: 0, ...fields
  }
}

function collect (...batches: FeedBatch['events'][]): LiveLog {
  const log = new LiveLog()
  for (const events of batches) log.add(events, () => true)
  return log
}

t.test('says what ingest did with an event', (t) => {
  const { events } = collect([arrive(), arrive({ drop: 'missing_distinct_id' }), arrive({ isQuarantined: true })])

  t.same(events.map(describeFate), ['accepted', 'dropped: missing_distinct_id', 'dead letter: schema not met'])
  t.equal(new Set(events.map(({ id }) => id)).size, 3)
  t.end()
})

t.test('keeps a bounded number of events, the newest', (t) => {
  const log = collect(...Array.from({ length: 5 }, () => Array.from({ length: 1000 }, () => arrive())))

  t.equal(log.events.length, KEPT_EVENTS)
  t.equal(log.events.at(-1)!.id, '4999')
  t.equal(log.added, 5000)
  t.end()
})

t.test('shows what the filter asks for', (t) => {
  const [event, cut] = collect([arrive(), arrive({ sent: '{"prop', sentCharacters: 20_000 })]).events as [LiveEvent, LiveEvent]
  const passes = (filter: Partial<LiveFilter>, what = event): boolean => acceptsEvent(what, { ...all, ...filter })

  t.ok(passes({}))
  t.same([passes({ key: 'phc_abcd' }), passes({ key: 'phc_abcdefgh' }), passes({ key: 'phc_x' })], [true, true, false])
  t.same([passes({ lib: 'web' }), passes({ lib: '1.2' }), passes({ lib: 'python' })], [true, true, false])
  t.same([passes({ fate: 'accepted' }), passes({ fate: 'dropped' })], [true, false])
  t.same([passes({ property: 'plan', value: 'pro' }), passes({ property: 'plan', value: 'free' }), passes({ property: 'amount', value: '5' })], [true, false, true])
  t.same([passes({ property: 'nested', value: '{"a":1}' }), passes({ property: 'none', value: '' })], [true, false])
  t.same(['pro', 'free'].map((value) => passes({ property: 'plan', operator: '!=', value })), [false, true])
  t.ok(passes({ property: 'none', operator: '!=', value: 'x' }), 'what is absent differs')
  t.notOk(passes({ property: 'plan', operator: '!=', value: 'x' }, cut), 'what cannot be read is not shown')
  const [ofSegment] = collect([arrive({ sent: '{"traits":{"plan":"pro"}}' })]).events
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

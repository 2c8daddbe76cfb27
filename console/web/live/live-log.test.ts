import t from 'tap'
import { describeCounts, describeFate, type FeedBatch, KEPT_EVENTS, LiveLog, toCurl } from './live-log.ts'

const sent = JSON.stringify({ event: 'paid', properties: { plan: 'pro', amount: 5, nested: { a: 1 } } })

function arrive (fields: object = {}): FeedBatch['events'][number] {
  return {
    at: 1000, event: 'paid', distinctId: 'ann', uuid: 'u', lib: 'web', libVersion: '1.2.0', drop: null, isQuarantined: false, value: '', sent, sentCharacters: 0, ...fields
  }
}

function collect (...batches: FeedBatch['events'][]): LiveLog {
  const log = new LiveLog()
  for (const events of batches) log.add(events, () => true)
  return log
}

t.test('says what became of an event', (t) => {
  const { events } = collect([arrive(), arrive({ drop: 'missing_distinct_id' }), arrive({ isQuarantined: true }), arrive({ drop: 'rate_limited' })])

  t.same(events.map(describeFate), ['accepted', 'dropped: missing_distinct_id', 'dead letter: schema not met', 'refused: rate_limited'])
  t.equal(new Set(events.map(({ id }) => id)).size, 4)
  t.end()
})

t.test('keeps a bounded number of events, the newest', (t) => {
  const log = collect(...Array.from({ length: 5 }, () => Array.from({ length: 1000 }, () => arrive())))

  t.equal(log.events.length, KEPT_EVENTS)
  t.equal(log.events.at(-1)!.id, '4999')
  t.equal(log.added, 5000)
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

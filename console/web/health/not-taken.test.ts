import t from 'tap'
import { countRefused, describeNotTaken } from './not-taken.ts'

t.test('what was not taken says why and what to do, the most frequent first', async (t) => {
  const ingest = { dropped: { rule_dropped: 2, missing_event_name: 7 }, refusedRequests: { 401: 3, 418: 1 } }

  t.match(describeNotTaken(ingest), [
    { what: 'events', why: 'Dropped: it has no name. Send one, as event.', count: 7 },
    { what: 'requests', why: /^401: the key is that of no project\./, count: 3 },
    { what: 'events', why: /^Dropped: a rule drops it\./, count: 2 },
    { what: 'requests', why: 'Answered with 418.', count: 1 }
  ])
  t.equal(countRefused(ingest), 4)
})

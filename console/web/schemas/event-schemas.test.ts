import t from 'tap'
import { describeEnforced, describeFailed, describeFailing, describePath, describePrediction, describeShare } from './event-schemas.ts'

t.test('what a check found reads as a sentence, for each mode', async (t) => {
  const prediction = { events: 12_000, met: 11_990, failed: 10, complete: true, failures: [], libs: [] }

  t.equal(describePrediction(prediction, 'observe'), '10 of 12,000 events (<0.1 %) do not meet it, and would have been stored and counted.')
  t.match(describePrediction({ ...prediction, complete: false }, 'quarantine'), '10 of 12,000 newest events (<0.1 %) do not meet it, and would have been quarantined.')
  t.match(describePrediction({ ...prediction, failed: 12_000 }, 'reject'), '(100 %) do not meet it, and would have been dropped.')
  t.equal(describePrediction({ ...prediction, failed: 0 }, 'reject'), 'All 12,000 events meet it.')
  t.equal(describePrediction({ ...prediction, events: 0, failed: 0 }, 'reject'), 'There are no stored events of these days.')
})

t.test('a share is never nothing when there is something, and never all when something is missing', async (t) => {
  const shares = [[0, 5], [1, 3], [1, 2], [5, 5], [1, 100_000], [99_999, 100_000], [999, 1000], [0, 0]]
  t.same(shares.map(([part, whole]) => describeShare(part!, whole!)),
    ['0 %', '33.3 %', '50 %', '100 %', '<0.1 %', '>99.9 %', '99.9 %', '0 %'])
})

t.test('violations of a schema are shown as a share, with their fates', async (t) => {
  const counts = { schema: 1, checked: 1200, kept: 0, quarantined: 2, rejected: 1 }

  t.equal(describeFailed(counts), '3 of 1,200 (0.3 %)')
  t.equal(describeFailing(counts), '3 of 1,200 (0.3 %) events: 2 quarantined, 1 dropped')
  t.equal(describeFailing({ ...counts, quarantined: 0, rejected: 0 }), '0 of 1,200 (0 %) events')
  t.equal(describeFailed({ ...counts, quarantined: 0, rejected: 0 }), '0 of 1,200 (0 %)')
})

t.test('places and states are worded', async (t) => {
  t.equal(describePath('/items/*/a~1b~0'), 'items › * › a/b~')
  t.equal(describePath(''), 'the properties as a whole')
  t.equal(describeEnforced({ mode: 'reject', active_version: 3 }), 'version 3, reject')
  t.equal(describeEnforced({ mode: 'reject', active_version: null }), 'not enforced')
})

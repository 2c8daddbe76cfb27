import t from 'tap'
import { INGESTION_WARNINGS } from '../../../schema/wire/ingestion-warnings.ts'
import { describeRefused, explainWarning, isOfRequests } from './warning-words.ts'

const NOW = Date.UTC(2026, 0, 1, 12)
const refused = { reason: 'wrong_key', count: 1, last_minute: '2026-01-01T11:58:00Z', samples: [{ value: '' }] }

t.test('refused requests are a sentence with their number, some values and what to do', async (t) => {
  t.match(describeRefused(refused, NOW), /^1 request was refused with a key that nobody has, the last 2 min ago: compare/)
  const samples = ['/a', '/b', '/a', '/c', '/d'].map((value) => ({ value }))
  t.match(describeRefused({ ...refused, reason: 'unknown_path', count: 1200, samples }, NOW),
    /^1,200 requests were refused to a path that does not exist \(\/a, \/b, \/c\), the last/)
  t.match(describeRefused({ ...refused, samples: [{ value: '\u202ex' }] }, NOW), '(\\u{202e}x)', 'no text changes what is around it')
  t.match(describeRefused({ ...refused, reason: 'of_tomorrow' }, NOW), /refused for of tomorrow, .* see Warnings\.$/)
})

t.test('what became of an event agrees with the effect that is counted', async (t) => {
  const BEGIN = {
    dropped: /^Dropped/, replaced: /^Stored/, cut: /^Stored/, kept: /^Stored as sent/, refused: /^Stored, but/,
    quarantined: /^Kept as a dead letter/
  }
  const isWrong = (reason: string, effect: keyof typeof BEGIN): boolean => !BEGIN[effect].test(explainWarning(reason))
  const wrong = Object.entries(INGESTION_WARNINGS)
    .filter(([reason, effect]) => !isOfRequests(reason) && isWrong(reason, effect))
  t.same(wrong, [])
  t.equal(explainWarning('quota_exceeded'), "Refused because the project's quota of the month is exceeded: see Usage.")
  t.equal(explainWarning('of_tomorrow'), 'of tomorrow.')
})

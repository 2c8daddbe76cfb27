import t from 'tap'
import { INGESTION_WARNINGS } from '../../../schema/wire/ingestion-warnings.ts'
import { explainReceipt, leadsOf, nameOf, type Receipt } from './explain-receipt.ts'
import { describeRefused, explainDrop, explainWarning, isOfRequests, remedyFor } from './warning-words.ts'

const NOW = Date.parse('2026-11-23T12:00:30.000Z')

function receipt (fate: Receipt['fate'], parts: { [name in keyof Receipt]?: object }): Receipt {
  return {
    uuid: '0193a5b2-7c1d-7e8f-9abc-def012345678', fate, stored: null, duplicates: null, dead_letter: null, waiting: null, dropped: null,
    deleted: null, may_be_in: null, searched: null, ...parts
  } as Receipt
}

t.test('what a rule drops names the rule, and leads to it', async (t) => {
  const dropped = receipt('dropped', { dropped: { reason: 'rule_dropped: no test orders: ours' } })

  t.equal(explainReceipt(dropped, NOW),
    'It was answered with 200, and cannot be replayed. Dropped by a rule. If it should be stored, change the rule. The rule is called no test orders: ours.')
  t.match(leadsOf(dropped, '/projects/1'), [{ to: '/projects/1/rules?name=no%20test%20orders%3A%20ours' }])
})

t.test('what does not meet its schema says what fails, and leads to the letter and the schema', async (t) => {
  const letter = { id: 7, event: 'signed up', stage: 'schema', reason: 'not_met', error: 'version 1 of the schema is not met: /seats type "three"' }
  const kept = receipt('dead_letter', { dead_letter: letter })

  t.match(explainReceipt(kept, NOW), /does not meet the schema of its event.*\/seats type "three"/)
  t.same(leadsOf(kept, '/projects/1').map(({ to }) => to), ['/projects/1/dead-letters/7', '/projects/1/schemas?search=signed%20up'])
  t.equal(nameOf(kept), 'signed up')
  const refused = receipt('dead_letter', { dead_letter: { ...letter, stage: 'writer', error: 'too large' } })
  t.match(explainReceipt(refused, NOW), /could not be stored.*too large/)
  t.equal(leadsOf(refused, '/projects/1').length, 1)
})

t.test('what waits says for how long, and when that is long', async (t) => {
  const waiting = (publishedAt: string): Receipt => receipt('waiting', { waiting: { event: 'a', messages_ahead: 2, published_at: publishedAt } })

  t.equal(explainReceipt(waiting('2026-11-23T12:00:29.500Z'), NOW), 'It came just now and waits in the stream, with 2 messages before it: nothing is lost.')
  t.match(explainReceipt(waiting('2026-11-23T12:00:00.000Z'), NOW), /30 s ago.*That is long: Health says/)
})

t.test('every reason for which events are dropped says what to do, but a bug of Millrace', async (t) => {
  const without = Object.entries(INGESTION_WARNINGS)
    .filter(([reason, effect]) => effect === 'dropped' && remedyFor(reason).sentence === '').map(([reason]) => reason)

  t.same(without, ['not_storable'])
  t.equal(explainDrop('missing_event_name'), 'Dropped: it has no name. Send one, as event.')
  t.equal(explainDrop('of_the_future'), 'of the future.')
})

const NOON = Date.UTC(2026, 0, 1, 12)
const refused = { reason: 'wrong_key', count: 1, last_minute: '2026-01-01T11:58:00Z', samples: [{ value: '' }] }

t.test('refused requests are a sentence with their number, some values and what to do', async (t) => {
  t.match(describeRefused(refused, NOON), /^1 request was refused with an unknown key, the last 2 min ago: compare/)
  const samples = ['/a', '/b', '/a', '/c', '/d'].map((value) => ({ value }))
  t.match(describeRefused({ ...refused, reason: 'unknown_path', count: 1200, samples }, NOON),
    /^1,200 requests were refused to a path that does not exist \(\/a, \/b, \/c\), the last/)
  t.match(describeRefused({ ...refused, samples: [{ value: '\u202ex' }] }, NOON), '(\\u{202e}x)', 'no value changes the text around it')
  t.match(describeRefused({ ...refused, reason: 'of_tomorrow' }, NOON), /refused for of tomorrow, .* see Warnings\.$/)
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
  t.equal(explainWarning('quota_exceeded'), 'Refused because the project exceeded its monthly quota: see Usage.')
  t.equal(explainWarning('of_tomorrow'), 'of tomorrow.')
})

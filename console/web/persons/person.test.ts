import t from 'tap'
import { describeId } from './person.ts'

t.test('ids say how they came', async (t) => {
  t.equal(describeId({ distinct_id: 'a', since: '2026-01-02T03:04:05.000Z', is_first: false }, '2026-01-01T00:00:00.000Z'), 'joined 2026-01-02 03:04:05 UTC')
  t.equal(describeId({ distinct_id: 'a', since: null, is_first: true }, '2026-01-01T00:00:00.000Z'), 'the first, since the beginning')
  t.equal(describeId({ distinct_id: 'a', since: '2026-01-02T03:04:05.000Z', is_first: true }, '2026-01-01T00:00:00.000Z'), 'the first, since 2026-01-01 00:00:00 UTC',
    'not later than the person is known')
})

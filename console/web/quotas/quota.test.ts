import t from 'tap'
import { changesOf, describeBeyond, describeLimits, describeMonth, fieldsOf, type Quota } from './quota.ts'

const QUOTA: Quota = {
  events_per_second: 500,
  burst: 5000,
  events_per_month: 20_000_000,
  beyond: 'sample',
  sample_rate: 0.07,
  updated_at: '2026-11-22T10:00:00.000Z',
  month: { begin: '2026-11-01T00:00:00.000Z', events: 19_999_999, counted_through: '2026-11-22T10:00:05.000Z', exceeded: false }
}
const NO_LIMITS = { events_per_second: null, burst: null, events_per_month: null }
const NONE: Quota = { ...QUOTA, ...NO_LIMITS, updated_at: null, month: null }

t.test('limits, and the action beyond them, are described in words', async (t) => {
  t.equal(describeLimits(QUOTA), '500 events a second and 5,000 at once, by each ingest process; 20,000,000 events a calendar month (UTC)')
  t.equal(describeLimits(NONE), 'none: all events are accepted')
  t.match(describeBeyond(QUOTA), /^requests are answered with 200; events of 7 % of all distinct ids are stored, with the weight 14\.29$/)
  t.match(describeBeyond({ ...QUOTA, beyond: 'reject' }), /429/)
  t.equal(describeMonth(QUOTA), '19,999,999 of 20,000,000 (99.9 %); counted through 2026-11-22 10:00:05 UTC', 'not 100 % before it is all')
  t.match(describeMonth({ ...QUOTA, month: { ...QUOTA.month!, events: 30_000_000, exceeded: true } }), /\(150 %\), exceeded/)
  t.match(describeMonth({ ...QUOTA, month: null }), /not measured yet/)
  t.equal(describeMonth(NONE), null)
})

t.test('only what was touched is changed', async (t) => {
  const fields = fieldsOf(QUOTA)
  t.same(fields, { events_per_second: '500', burst: '5000', events_per_month: '20000000', beyond: 'sample', sample_rate: '7' })
  t.same(changesOf(fields, fields), {})
  t.same(changesOf(fields, { ...fields, events_per_second: '600' }), { events_per_second: 600 }, 'its burst follows')
  t.same(changesOf(fields, { ...fields, burst: ' ', events_per_month: '', beyond: 'reject', sample_rate: '12.5' }),
    { burst: null, events_per_month: null, beyond: 'reject', sample_rate: 0.125 })
  t.same(fieldsOf(NONE).events_per_second, '')
})

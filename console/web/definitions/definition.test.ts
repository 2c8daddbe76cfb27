import t from 'tap'
import { describeDrift, formatShare } from './definition.ts'

t.test('says whether a type drifts', async (t) => {
  const at = '2026-03-02T10:00:00.000Z'
  const none = { type: 'none' as const, share: 0.5, first_seen_at: at }
  const text = { type: 'String' as const, share: 0.5, first_seen_at: at }
  t.equal(describeDrift([]), 'No event carried it in the last 30 days.')
  t.equal(describeDrift([none]), 'It had no value with a type in the last 30 days.')
  t.equal(describeDrift([none, text]), 'Always String in the last 30 days.')
  t.equal(describeDrift([{ type: 'Numeric', share: 0.97, first_seen_at: at }, { ...text, share: 0.03 }]),
    'Drifts: mostly Numeric, but also String (3 %, since 2026-03-02).')
})

t.test('never rounds a share to nothing or to all', async (t) => {
  t.same([0, 0.0001, 0.126, 0.9999, 1].map(formatShare), ['0 %', '<1 %', '13 %', '99 %', '100 %'])
})

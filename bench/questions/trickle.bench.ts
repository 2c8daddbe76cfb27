import { sendTrickle } from '../../test/support/trickle.ts'
import { percentile, type Figure, type Question } from '../question.ts'

/** Whether lone messages are delivered as soon as they are stored, over some minutes. */
export const trickle: Question = {
  name: 'trickle',
  asks: 'one event a second for five minutes: late deliveries of JetStream, and how long until it is visible',
  isLong: true,
  async answer ({ stack, quick }) {
    const { visibleMs, delivered, late } = await sendTrickle(stack, quick ? 30 : 300)
    return [
      { name: 'messages', value: delivered.events + delivered.persons, unit: '' },
      { name: 'delivered more than 10 s late', value: late, unit: '', target: { atMost: 0 } },
      { name: 'visible p50', value: percentile(visibleMs, 0.5), unit: 'ms' },
      { name: 'visible, slowest', value: Math.max(...visibleMs), unit: 'ms', target: { atMost: 5000 } }
    ] satisfies Figure[]
  }
}

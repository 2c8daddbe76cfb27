/**
 * Answers questions one event at a time, in plain loops: the oracle of the SQL. Shares no code with it, nor the
 * calendar: a day is what clocks of the zone show.
 */
import { plainLifecycle, plainStickiness } from './plain-activity.ts'
import { createCalendar } from './plain-calendar.ts'
import { plainFunnel } from './plain-funnel.ts'
import { plainPaths } from './plain-paths.ts'
import type { PlainQuestion, PlainWorld } from './plain-question.ts'
import { plainRetention } from './plain-retention.ts'
import { plainTrend } from './plain-trend.ts'

export function answerPlainly (question: PlainQuestion, world: PlainWorld): unknown {
  const events = world.events.filter(({ isBot }) => question.include_bots || !isBot)
  const calendar = createCalendar(question, world)
  switch (question.kind) {
    case 'trend': return plainTrend(question, events, calendar)
    case 'funnel': return plainFunnel(question, events.filter(({ at }) => calendar.isIn(at)))
    case 'lifecycle': return plainLifecycle(question, events, { ...calendar, now: world.now })
    case 'stickiness': return plainStickiness(question, events, calendar)
    case 'paths': return plainPaths(question, events.filter(({ at }) => calendar.isIn(at)))
    default: return plainRetention(question, events, { ...calendar, now: world.now, begins: world.begins })
  }
}

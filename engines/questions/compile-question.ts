import { type ActivityCell, compileActivity, compileActivityPersons } from './activity-sql.ts'
import type { ResolvedRange } from './calendar.ts'
import { compileFunnel, compileFunnelPersons, type FunnelCell } from './funnel-sql.ts'
import type { Activity, EventChoice, Question, Trend } from './question.ts'
import { compilePaths, compilePathsPersons, type PathsCell } from './paths-sql.ts'
import { compileRetention, compileRetentionPersons, type RetentionCell } from './retention-sql.ts'
import { compileTrend, compileTrendPersons, type TrendCell } from './trend-sql.ts'

/**
 * The one query of ClickHouse that answers a question, for the login of analysts, whose profile counts duplicates that
 * are not merged yet once. It has no parameters, so that it gives the same wherever it is opened, and can be compared
 * with a plain computation. Materialized answers would have to follow merges and late events.
 */
export function compileQuestion (question: Question, projectId: number, range: ResolvedRange): string {
  return wrap(question.kind, compileKind(question, projectId, range), question, range)
}

function wrap (title: string, sql: string, question: Question, range: ResolvedRange): string {
  const { firstDay, lastDay, timezone } = range
  return `-- ${title}: ${firstDay} to ${lastDay}, days of ${timezone}, ${question.includeBots ? 'with' : 'without'} bots
${sql}${takesCopies(question) ? `\n${WITH_COPIES}` : ''}`
}

/** A number of an answer: how many persons it has, or what their events add up to. */
export type Cell = TrendCell & { kind: 'trend' } | FunnelCell & { kind: 'funnel' } | RetentionCell & { kind: 'retention' } | ActivityCell & { kind: Activity['kind'] } | PathsCell & { kind: 'paths' }

/**
 * The query of an answer, narrowed to the persons behind one of its numbers: their ids, when each did it last or
 * entered (null: the question does not say), what each adds to the number (null:
 * each counts once), and how many there are in all.
 *
 * @param asked.limit  Persons listed at most, the latest first.
 * @throws {HttpError} 400 for a period that the question does not have.
 */
export function compilePersons (
  question: Question, cell: Cell, asked: { projectId: number, range: ResolvedRange, limit: number }
): string {
  // The first series also chooses the parts that a formula is computed of.
  const isNeeded = (index: number, { formula, breakdown }: Trend): boolean =>
    index === 0 && formula !== null && breakdown !== null
  const narrowed = question.kind === 'trend' && cell.kind === 'trend'
    ? { ...question, series: question.series.filter((_, index) => index === cell.series || isNeeded(index, question)) }
    : question
  return wrap(`persons of a ${question.kind}`, `SELECT toString(person) AS person_id, at, value, count() OVER () AS people FROM
(
${compileCell(question, cell, asked)}
)
ORDER BY at DESC, person_id LIMIT ${asked.limit}`, narrowed, asked.range)
}

function compileCell (question: Question, cell: Cell, asked: { projectId: number, range: ResolvedRange }): string {
  if (question.kind === 'trend' && cell.kind === 'trend') return compileTrendPersons(question, cell, asked)
  if (question.kind === 'funnel' && cell.kind === 'funnel') return compileFunnelPersons(question, cell, asked)
  if (question.kind === 'retention' && cell.kind === 'retention') return compileRetentionPersons(question, cell, asked)
  if (question.kind === 'paths' && cell.kind === 'paths') return compilePathsPersons(question, cell, asked)
  if ((question.kind === 'lifecycle' || question.kind === 'stickiness') && cell.kind === question.kind) return compileActivityPersons(question, cell, asked)
  throw new Error(`a ${question.kind} has no cell of a ${cell.kind}`)
}

/**
 * Finding the copies of events that are not merged yet costs more than everything else: 40 to 80 % of a query. Each
 * copy has the uuid, name, distinct id and day of its event.
 */
const WITH_COPIES = '-- Copies of events that are not merged yet change nothing here.\nSETTINGS final = 0'

/** Whether an event that is there twice gives the same answer: all that counts is who did something, and when. */
function takesCopies (question: Question): boolean {
  switch (question.kind) {
    case 'trend': return question.series.every(({ measure }) => measure === 'people' || measure === 'groups')
    case 'funnel': {
      // A copy could be the second of two steps that both fit its event, or exclude it.
      const names = [...question.steps, ...question.exclude].map(({ event }) => event)
      return !names.includes(null) && new Set(names).size === names.length
    }
    // The copy of an event of a path follows it, and two of one name are one.
    case 'retention': case 'lifecycle': case 'stickiness': case 'paths': return true
  }
}

function compileKind (question: Question, projectId: number, range: ResolvedRange): string {
  switch (question.kind) {
    case 'trend': return compileTrend(question, projectId, range)
    case 'funnel': return compileFunnel(question, projectId, range)
    case 'retention': return compileRetention(question, projectId, range)
    case 'lifecycle': case 'stickiness': return compileActivity(question, projectId, range)
    case 'paths': return compilePaths(question, projectId, range)
  }
}

/** A name of an event, for people. */
export function nameOf ({ event }: EventChoice): string {
  return event ?? 'any event'
}

/** The names of events that a question is about, each once. */
export function eventNamesOf (question: Question): string[] {
  const choices = (): EventChoice[] => {
    switch (question.kind) {
      case 'trend': return question.series
      case 'funnel': return [...question.steps, ...question.exclude]
      case 'retention': return [question.start, question.returning]
      case 'lifecycle': case 'stickiness': return [question.activity]
      case 'paths': return [question.anchor]
    }
  }
  const names = choices().flatMap(({ event }) => event ?? [])
  return [...new Set(question.kind === 'paths' ? [...names, ...question.events ?? []] : names)]
}

/** What a series counts, for people: `sum of amount of order paid`. */
export function nameOfSeries ({ measure, property, ...choice }: Trend['series'][number]): string {
  if (measure === 'events') return nameOf(choice)
  if (measure === 'people') return `people of ${nameOf(choice)}`
  return measure === 'per_person' ? `${nameOf(choice)} per person` : `${measure} of ${property} of ${nameOf(choice)}`
}

/** How events of a sample count: `weighted` as many as they stand for; people are always those of stored events. */
export function samplesOf (question: Question): 'weighted' | 'as_stored' {
  return question.kind === 'trend' && question.series.some(({ measure }) => measure !== 'people' && measure !== 'groups') ? 'weighted' : 'as_stored'
}

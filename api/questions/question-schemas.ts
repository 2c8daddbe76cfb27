/** What questions and their answers look like in the OpenAPI document. */
import { LIFECYCLE_STATES } from '../../engines/questions/activity-sql.ts'
import type { Question } from '../../engines/questions/question.ts'
import { array, integer, nullableObject, object, optional, partial, string } from '../http/json-schema.ts'

export const definitionSchema = {
  type: 'object', additionalProperties: true,
  description: 'Of kind trend, funnel, retention, lifecycle, stickiness or paths; docs/query/questions.md has the fields of each.'
} as const

const facts = {
  sql: { ...string, description: 'ClickHouse query behind the answer, without parameters.' },
  from: { ...string, description: "First day, in the project's time zone." },
  to: { ...string, description: 'Last day, inclusive.' },
  timezone: string,
  as_of: { ...string, format: 'date-time', description: 'When the query began.' },
  kept_from: { type: ['string', 'null'], description: 'Retention removed events of UTC days before this one; null: no events were removed.' },
  complete_through: {
    type: ['string', 'null'], format: 'date-time',
    description: 'Every acknowledged event received before this time is counted; null while unknown.'
  },
  read_rows: integer, read_bytes: integer, ms: { type: 'number' },
  includes_bots: { type: 'boolean' },
  cohorts: array(object({ id: integer, name: string, as_of: { ...string, format: 'date-time', description: 'When its members were computed.' } })),
  samples: {
    ...string, enum: ['weighted', 'as_stored'],
    description: 'weighted: a sampled event counts with its weight; people are always counted from stored events.'
  }
} as const

export const part = {
  part: { ...string, enum: ['all', 'value', 'cohort', 'not_set', 'rest'], description: 'All events or people, or one part of the breakdown.' },
  value: { type: ['string', 'null'], description: 'The value of the property, or the id of the cohort; null for other parts.' }
} as const

const numberOrNull = { type: ['number', 'null'] } as const
const integerOrNull = { type: ['integer', 'null'], description: 'Null: retention removed the events, or the project had none yet.' } as const
const stringOrNull = { type: ['string', 'null'] } as const
const points = array(object({
  start: string, is_partial: { type: 'boolean' }, is_removed: { type: 'boolean', description: 'true: retention removed its events, so it has no value.' }
}))
const lines = array(object({
  ...part, series: { ...integer, description: 'Index of the requested series, from 0.' }, name: string,
  values: { ...array(numberOrNull), description: 'One per point. Null: no average, or the point has not begun or retention removed it.' }, total: numberOrNull,
  left_out: { type: 'number', description: 'Events left out of a sum or average because the property is not a number.' }
}))

export const answerSchema = object({
  ...facts,
  first_event_at: { type: ['string', 'null'], format: 'date-time', description: 'Time of the first event of the project; null if it has none.' },
  unknown_events: { ...array(string), description: 'Event names in the definition that the project has never received.' },
  answer: partial({
    kind: { ...string, enum: ['trend', 'funnel', 'retention', 'lifecycle', 'stickiness', 'paths'] },
    points: { ...points, description: 'Trend, lifecycle: its buckets.' },
    lines,
    previous: nullableObject({
      from: { ...string, format: 'date-time' }, to: { ...string, format: 'date-time', description: 'Exclusive.' }, points, lines
    }, 'Previous period of a compared trend. Point n is compared with point n of the range.'),
    parts: array(object({
      ...part,
      steps: array(object({
        name: string, people: integerOrNull, conversion: { ...numberOrNull, description: 'Share of people who entered the funnel; null if nobody did.' },
        median_ms: { ...numberOrNull, description: 'Median time to reach this step.' },
        p90_ms: { ...numberOrNull, description: '90th percentile of that time.' },
        times: { ...array(object({ from_ms: integer, to_ms: integer, people: integer })), description: 'People by time to reach this step; `to_ms` is exclusive, except in the last range.' }
      }))
    }), { description: 'Funnel: all people first, then the parts of the breakdown.' }),
    cohorts: array(object({
      start: string, people: integerOrNull,
      returned: array(object({ people: integerOrNull, is_partial: { type: 'boolean' } }))
    }), { description: 'Retention: people who returned in the k-th period after, from 0.' }),
    states: array(object({ state: { ...string, enum: LIFECYCLE_STATES }, values: array(integerOrNull) }), { description: 'Lifecycle: people of each state by point; null also if the point has not begun.' }),
    counts: array(object({ periods: integer, people: integerOrNull }), { description: 'Stickiness: people by the number of periods in which they were active.' }),
    people: integerOrNull,
    paths: integerOrNull,
    edges: array(object({ step: integer, from: stringOrNull, to: stringOrNull, people: integer, paths: integer }), { description: 'Paths: edges by step, from the event outward, most people first; a null name is all other events.' })
  }, 'kind')
}, { $id: 'QuestionAnswer' })

/** Fields of the numbers of each kind of answer; the number of a part also has `part` and `value`. */
export const CELL_FIELDS: Record<Question['kind'], readonly string[]> = {
  trend: ['series', 'previous', 'start'],
  funnel: ['step', 'outcome', 'from_ms'],
  retention: ['start', 'returned'],
  lifecycle: ['start', 'state'],
  stickiness: ['periods'],
  paths: ['step', 'from', 'to']
}

export const cellSchema = optional({
  ...part,
  series: { ...integer, minimum: 0, description: 'Trend: index of the series, from 0.' },
  previous: { type: 'boolean', description: 'Trend: a value of the previous period.' },
  start: { type: ['string', 'null'], description: 'Trend, lifecycle: `start` of the point; null for the total of a trend. Retention: `start` of the period in which people started.' },
  state: { ...string, enum: LIFECYCLE_STATES, description: 'Lifecycle: state of the people.' },
  periods: { ...integer, minimum: 1, description: 'Stickiness: number of periods in which people were active.' },
  step: { ...integer, minimum: 1, description: 'Funnel: the step, from 1. Paths: step of the edge; without it, everybody with a path.' },
  outcome: { ...string, enum: ['reached', 'lost'], description: 'Funnel: reached: people who reached the step; lost: people who reached only the step before.' },
  from_ms: { ...integer, description: 'Funnel: people who reached the step in this range of its `times`.' },
  from: { ...stringOrNull, description: 'Paths: earlier event of the edge; null: all others.' },
  to: { ...stringOrNull, description: 'Paths: later event of the edge; null: all others.' },
  returned: { ...integer, minimum: 0, description: 'Retention: period after the start in which people returned; 0: everyone who started.' }
}, { additionalProperties: false, description: 'Position of a number in the answer.' })

export const asOfSchema = {
  ...string, format: 'date-time', description: '`as_of` of the answer, for the events and the members of cohorts it counted. Merges and properties are current. Default: now.'
} as const

export const personsBehindSchema = object({
  ...facts,
  people: { ...integer, description: 'Total number of persons behind the number; `results` lists the first.' },
  results: array(object({
    person_id: string,
    at: { type: ['string', 'null'], format: 'date-time', description: 'Time of their last event behind the number, of their entry into the funnel, or of the anchor event of their path; null for retention.' },
    value: { ...numberOrNull, description: 'Their contribution to a number that does not count people; for an average, the average of their own events.' },
    name: { ...string, description: 'Email, name, username or a distinct id; empty for a person known from events only.' },
    is_known: { type: 'boolean', description: 'false: no properties and never identified, so no person is stored.' }
  }))
})

/** What questions and their answers look like in the OpenAPI document. */
import { array, integer, nullableObject, object, partial, string } from '../http/json-schema.ts'

export const definitionSchema = {
  type: 'object', additionalProperties: true,
  description: 'Of kind trend, funnel or retention; docs/query/questions.md has the fields of each.'
} as const

const facts = {
  sql: { ...string, description: 'ClickHouse query behind the answer, without parameters.' },
  from: { ...string, description: "First day, in the project's time zone." },
  to: { ...string, description: 'Last day, included.' },
  timezone: string,
  kept_from: { type: ['string', 'null'], description: 'Retention removed events of UTC days before this one; null: no events were removed.' },
  complete_through: {
    type: ['string', 'null'], format: 'date-time',
    description: 'Every acknowledged event received before this time is counted; null while unknown.'
  },
  read_rows: integer, read_bytes: integer, ms: { type: 'number' },
  includes_bots: { type: 'boolean' },
  samples: {
    ...string, enum: ['weighted', 'as_stored'],
    description: 'weighted: a sampled event counts with its weight; people are always counted from stored events.'
  }
} as const

export const part = {
  part: { ...string, enum: ['all', 'value', 'not_set', 'rest'], description: 'All events or people, or one part of the breakdown.' },
  value: { type: ['string', 'null'], description: 'The value of the property; null unless `part` is `value`.' }
} as const

const numberOrNull = { type: ['number', 'null'] } as const
const integerOrNull = { type: ['integer', 'null'], description: 'Null: retention removed the events.' } as const
const points = array(object({
  start: string, is_partial: { type: 'boolean' }, is_removed: { type: 'boolean', description: 'true: retention removed its events, so it has no value.' }
}))
const lines = array(object({
  ...part, series: { ...integer, description: 'Index of the requested series, from 0.' }, name: string,
  values: array(numberOrNull), total: numberOrNull,
  left_out: { type: 'number', description: 'Events left out of a sum or average, because the property is not a number.' }
}))

export const answerSchema = object({
  ...facts,
  answer: partial({
    kind: { ...string, enum: ['trend', 'funnel', 'retention'] },
    points: { ...points, description: 'Trend: its buckets.' },
    lines,
    previous: nullableObject({
      from: { ...string, format: 'date-time' }, to: { ...string, format: 'date-time', description: 'Not included.' }, points, lines
    }, 'Previous period of a compared trend. Point n is compared with point n of the range.'),
    parts: array(object({
      ...part,
      steps: array(object({
        name: string, people: integerOrNull, conversion: { ...numberOrNull, description: 'Share of people who entered the funnel.' },
        median_ms: { ...numberOrNull, description: 'Median time to reach this step.' }
      }))
    }), { description: 'Funnel: everyone first.' }),
    cohorts: array(object({
      start: string, people: integerOrNull,
      returned: array(object({ people: integerOrNull, is_partial: { type: 'boolean' } }))
    }), { description: 'Retention: people who returned in the k-th period after, from 0.' })
  }, 'kind')
}, { $id: 'QuestionAnswer' })

export const dropoutsSchema = object({
  ...facts,
  results: array(object({
    person_id: string, entered_at: { ...string, format: 'date-time' },
    name: { ...string, description: 'Email, name, username or a distinct id; empty for a person known from events only.' },
    is_known: { type: 'boolean', description: 'false: no properties and never identified, so no person is stored.' }
  }))
})

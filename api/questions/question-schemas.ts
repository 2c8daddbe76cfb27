/** What questions and their answers look like in the OpenAPI document. */
import { array, integer, nullableObject, object, partial, string } from '../http/json-schema.ts'

export const definitionSchema = {
  type: 'object', additionalProperties: true,
  description: 'Of kind trend, funnel or retention; docs/query/questions.md has the fields of each.'
} as const

const facts = {
  sql: { ...string, description: 'The query of ClickHouse that gave the answer, without parameters.' },
  from: { ...string, description: 'First day, of the time zone of the project.' },
  to: { ...string, description: 'Last day, included.' },
  timezone: string,
  kept_from: { type: ['string', 'null'], description: 'Events of days (UTC) before this one are removed by retention; null: none are.' },
  complete_through: {
    type: ['string', 'null'], format: 'date-time',
    description: 'Every acknowledged event received before this time is counted; null while nothing is known.'
  },
  read_rows: integer, read_bytes: integer, ms: { type: 'number' },
  includes_bots: { type: 'boolean' },
  samples: {
    ...string, enum: ['weighted', 'as_stored'],
    description: 'weighted: an event of a sample counts as many as it stands for; people are always those of stored events.'
  }
} as const

export const part = {
  part: { ...string, enum: ['all', 'value', 'not_set', 'rest'], description: 'Which part this is: all events or people, or one part of the breakdown.' },
  value: { type: ['string', 'null'], description: 'The value of the property; null unless `part` is `value`.' }
} as const

const numberOrNull = { type: ['number', 'null'] } as const
const integerOrNull = { type: ['integer', 'null'], description: 'Null: retention removed the events.' } as const
const points = array(object({
  start: string, is_partial: { type: 'boolean' }, is_removed: { type: 'boolean', description: 'Retention removed its events: it has no value.' }
}))
const lines = array(object({
  ...part, series: { ...integer, description: 'Which of the asked series, from 0.' }, name: string,
  values: array(numberOrNull), total: numberOrNull,
  left_out: { type: 'number', description: 'Events without a number in the property of a sum or an average, which count in neither.' }
}))

export const answerSchema = object({
  ...facts,
  answer: partial({
    kind: { ...string, enum: ['trend', 'funnel', 'retention'] },
    points: { ...points, description: 'Of a trend: its buckets.' },
    lines,
    previous: nullableObject({
      from: { ...string, format: 'date-time' }, to: { ...string, format: 'date-time', description: 'Not included.' }, points, lines
    }, 'Previous period of a compared trend. Point n is compared with point n of the range.'),
    parts: array(object({
      ...part,
      steps: array(object({
        name: string, people: integerOrNull, conversion: { ...numberOrNull, description: 'Share of those who entered.' },
        median_ms: { ...numberOrNull, description: 'Median time to reach this step.' }
      }))
    }), { description: 'Of a funnel: everybody first.' }),
    cohorts: array(object({
      start: string, people: integerOrNull,
      returned: array(object({ people: integerOrNull, is_partial: { type: 'boolean' } }))
    }), { description: 'Of a retention: how many people returned in the k-th period after, from 0.' })
  }, 'kind')
}, { $id: 'QuestionAnswer' })

export const dropoutsSchema = object({
  ...facts,
  results: array(object({
    person_id: string, entered_at: { ...string, format: 'date-time' },
    name: { ...string, description: 'Email, name, username or a distinct id; empty for a person of whom only events are stored.' },
    is_known: { type: 'boolean', description: 'False: it has no properties and was never identified, so no person is stored.' }
  }))
})

import { checkStoredEvents } from '../../api/rules-and-schemas/schemas/check-stored-events.ts'
import { compileSchema } from '../../engines/json-schema/compile-schema.ts'
import { fillBeside, FILLED_PROJECT, SIDE } from '../load/fill-table.ts'
import type { Figure, Question } from '../question.ts'

/** The aim is ten million events in 20 s. */
const TARGET_EVENTS_PER_SECOND = 500_000

/** Filling ten million takes minutes: `--events 10000000`. */
const ROWS = 1_000_000

const MB = 1_048_576
const WATCH_MS = 50

/** Schemas that ask more and more of an event of 300 bytes and 12 properties. */
const SCHEMAS: Record<string, object> = {
  'types, values of four properties': {
    required: ['plan', 'seats'],
    properties: {
      plan: { enum: ['free', 'pro'] },
      seats: { type: 'integer', minimum: 1 },
      amount: { type: 'number', minimum: 0, maximum: 900 },
      coupon: { type: ['string', 'null'], maxLength: 20 },
      order_id: { type: 'string' },
      $current_url: { type: 'string' }
    }
  },
  'the same, and no other names': {
    required: ['plan', 'seats'],
    properties: { plan: { enum: ['free', 'pro'] }, seats: { type: 'integer', minimum: 1 }, amount: true, coupon: true, order_id: true, items: true, new: true },
    patternProperties: { '^\\$': true },
    additionalProperties: false
  },
  'a pattern over texts that all differ': { properties: { order_id: { type: 'string', pattern: '^[0-9A-F]{8,16}$' } } }
}

/** How long it takes to say what a schema would have done with stored events, and the memory of who asks. */
export const hindsight: Question = {
  name: 'hindsight',
  asks: 'how long a schema is held against a million stored events (--events; half a million with --quick)',
  isLong: true,
  async answer ({ stack, quick, events: rows = quick ? ROWS / 2 : ROWS }) {
    await fillBeside(stack, rows, FILL)
    const figures: Figure[] = []
    for (const [name, schema] of Object.entries(SCHEMAS)) {
      const startedAt = performance.now()
      let memory = process.memoryUsage.rss()
      const watching = setInterval(() => { memory = Math.max(memory, process.memoryUsage.rss()) }, WATCH_MS)
      const { events, failed } = await checkStoredEvents(stack.clickhouse, compileSchema(schema), {
        projectId: FILLED_PROJECT, event: 'order paid', days: 365, limit: rows, now: Date.now()
      })
      clearInterval(watching)
      const seconds = (performance.now() - startedAt) / 1000
      if (events !== rows) throw new Error(`${name}: ${events} of ${rows} events were checked`)
      const target = { atMost: rows / TARGET_EVENTS_PER_SECOND }
      figures.push(
        { name, value: seconds, unit: 's', ...!quick && { target } },
        { name: `${name}: failed`, value: failed, unit: 'events' },
        { name: `${name}: memory`, value: memory / MB, unit: 'MB' })
    }
    return figures
  }
}

const FILL = `
  INSERT INTO ${SIDE} (project_id, person_id, uuid, event, distinct_id, timestamp, received_at, inserted_at, properties, property_types, lib, lib_version)
  WITH now64(3) - toIntervalMillisecond(1000 + toInt64((cityHash64(number, 1) % 1000000) / 1000000 * 29 * 86400000)) AS time
  SELECT {project:UInt32}, toUUID('00000000-0000-0000-0000-000000000000'), generateUUIDv4(number), 'order paid',
         concat('person-', toString(cityHash64(number) % 100000)), time, time, time,
         concat('{"plan":"', if(number % 1000 = 0, 'gold', if(number % 5 = 0, 'pro', 'free')), '"', if(number % 100 = 0, '', concat(',"seats":', toString(number % 50))),
                ',"amount":', toString(cityHash64(number, 5) % 100000 / 100), ',"$browser":"Chrome","$lib":"web","$current_url":"https://shop.example.com/',
                hex(cityHash64(number, 6)), '","order_id":"', hex(cityHash64(number, 2)), '","coupon":', if(number % 7 = 0, '"SPRING"', 'null'),
                ',"$os":"Windows","$device_id":"', hex(cityHash64(number, 3)), '","items":["a","b"],"new":true}'),
         concat('eSplan\\0', if(number % 100 = 0, '', 'eNseats\\0'), 'eNamount\\0eS$browser\\0eS$lib\\0eS$current_url\\0eSorder_id\\0', if(number % 7 = 0, 'eS', 'e?'),
                'coupon\\0eS$os\\0eS$device_id\\0e?items\\0eBnew'),
         'web', '1'
  FROM numbers({from:UInt64}, {step:UInt64})`

/** SQL of the hash by which an event is known, for whoever compares stored events with those somewhere else. */

/** sipHash64 of uuid, name, distinct id and time (epoch milliseconds), joined by line feeds. */
export const EVENT_IDENTITY =
  "sipHash64(concat(toString(uuid), '\\n', event, '\\n', distinct_id, '\\n', toString(toUnixTimestamp64Milli(timestamp))))"

/** Of the properties as they are stored. */
export const EVENT_PROPERTIES_HASH = 'sipHash64(properties)'

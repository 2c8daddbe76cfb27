/**
 * Why an event of an accepted request is not stored. The answer is 200 all the same (the contract says so), its
 * neighbours are stored, and each reason is a label of `millrace_ingest_events_dropped_total`.
 */
export const DROP_REASONS = [
  'not_an_object',
  'missing_event_name',
  'invalid_event_name',
  'missing_distinct_id',
  'invalid_properties',
  'event_too_large',
  'not_storable'
] as const

export type DropReason = (typeof DROP_REASONS)[number]

/**
 * Marks a request that ingest forwards to the API, which has it from a client then: metrics and health of the API are
 * for those who reach its port.
 */
export const FORWARDED = 'millrace-forwarded'

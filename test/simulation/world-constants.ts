/** What a world and the messages in it agree on; without the virtual clock, so that real servers can be compared. */

/** Where every world begins, epoch milliseconds: what depends on the time of day is the same in each. */
export const WORLD_BEGAN_AT = Date.UTC(2026, 5, 1, 12)

/** Rows with this name are refused by their values, as a value out of range is. */
export const REFUSED_EVENT = 'refused by ClickHouse'

/**
 * Factor by which the longest waits of the servers are shorter than in a real installation, or most of each world would
 * be waiting: for acknowledgements, for the answer to an insert, and of message ids for their window.
 */
export const SHORTER = 6

/** What a world and the messages in it agree on; without the virtual clock, so that real servers can be compared. */

/** Where every world begins, epoch milliseconds: what depends on the time of day is the same in each. */
export const WORLD_BEGAN_AT = Date.UTC(2026, 5, 1, 12)

/** Rows with this name are refused by their values, as a value out of range is. */
export const REFUSED_EVENT = 'refused by ClickHouse'

import { type TransactionSql } from '../../../platform/postgres/connect-postgres.ts'

/**
 * Runs statements that join a list with a large table, planned again each time: a plan kept from when the table was
 * empty would read all of it for each item of the list, for as long as nobody analysed the table.
 *
 * Only these: checks of foreign keys are planned a row at a time in this mode, which doubles the price of an insert.
 */
export async function planEachTime<T> (transaction: TransactionSql, run: () => Promise<T>): Promise<T> {
  await transaction`SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`
  const result = await run()
  await transaction`SELECT set_config('plan_cache_mode', 'auto', true)`
  return result
}

import { AsyncLocalStorage } from 'node:async_hooks'

/** Who changes something through the API, for the triggers that write the record. */
export interface Actor {
  user_id: number | null
  key_hash?: string
  address: string
  project_id?: number | null
}

/** Whoever acts in a request: transactions and changing statements of it say so to Postgres. */
export const actors = new AsyncLocalStorage<Actor>()

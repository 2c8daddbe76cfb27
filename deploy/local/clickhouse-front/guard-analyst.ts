import { FrontError } from './errors.ts'
import { type Statement } from './read-statement.ts'

const ALLOWED_KINDS = new Set(['select', 'show', 'session'])

/**
 * Refuses what the engine would let a read-only session do although it reaches beyond the tables.
 *
 * The engine itself refuses writes, definitions, changes of settings and most table functions (`readonly = 1`).
 */
export function guardAnalyst (statement: Statement): void {
  if (!ALLOWED_KINDS.has(statement.kind)) {
    throw new FrontError(164, 'analyst: Cannot execute query in readonly mode')
  }
}

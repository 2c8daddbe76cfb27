import { type Stack } from '../start-stack.ts'

/** Puts an event definition into project 1, as if the event had been seen; returns its id. */
export async function insertEvent ({ sql }: Stack, name: string): Promise<string> {
  const [row] = await sql`
    INSERT INTO event_definitions (project_id, name, created_by) VALUES (1, ${name}, 1) RETURNING id`
  return row?.['id']
}

/** Puts a property definition into project 1; of events, unless the columns say otherwise. Returns its id. */
export async function insertProperty ({ sql }: Stack, name: string, columns: object = {}): Promise<string> {
  const row = { project_id: 1, type: 'event', name, ...columns }
  const [inserted] = await sql`INSERT INTO property_definitions ${sql(row)} RETURNING id`
  return inserted?.['id']
}

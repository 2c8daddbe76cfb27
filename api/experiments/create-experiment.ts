import { type Sql } from '../../platform/postgres/connect-postgres.ts'
import { parseIsoDateTime } from '../http/request-values.ts'
import { type NewExperiment } from './experiment-body.ts'
import { refuseEndBeforeStart, refuseGlobalProperties } from './experiment-errors.ts'
import { linkOrCreateFlag, writeExperiment } from './experiment-flag.ts'
import { findExperiment } from './find-experiment.ts'
import { type Experiment } from './experiment.ts'

/**
 * Creates an experiment together with its flag. With a start date it is launched at once.
 *
 * @throws {HttpError} 400 with the words of docs/contract/sdks.md 4.2.
 */
export async function createExperiment (
  sql: Sql, who: { projectId: number, userId: number }, body: NewExperiment
): Promise<Experiment> {
  const start = readDate(body.start_date)
  const end = readDate(body.end_date)
  refuseEndBeforeStart(start, end)
  refuseGlobalProperties(body.filters)

  const id = await writeExperiment(sql, who.projectId, async ({ tx, flags }) => {
    const flagId = await linkOrCreateFlag(flags, {
      userId: who.userId,
      key: body.feature_flag_key,
      experimentName: body.name,
      parameters: body.parameters,
      active: start !== null
    })
    const [row] = await tx<{ id: number }[]>`
      INSERT INTO experiments (project_id, name, description, start_date, end_date, feature_flag_id, parameters,
        secondary_metrics, filters, archived, created_by)
      VALUES (${who.projectId}, ${body.name}, ${body.description ?? ''}, ${start}, ${end}, ${flagId},
        ${tx.json((body.parameters ?? {}) as never)}, ${tx.json((body.secondary_metrics ?? {}) as never)},
        ${tx.json((body.filters ?? {}) as never)}, ${body.archived ?? false}, ${who.userId})
      RETURNING id`
    if (row === undefined) throw new Error('the insert returned no row')
    return row.id
  })
  return await findExperiment(sql, who.projectId, id)
}

/** The instant of a field that the schema let through; null for none. */
export function readDate (text: string | null | undefined): Date | null {
  return text === null || text === undefined ? null : parseIsoDateTime(text) ?? null
}

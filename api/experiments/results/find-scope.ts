import { type Sql } from '../../../platform/postgres/connect-postgres.ts'
import { variantsOfFlag, type Variant } from '../../flags/flag-definition.ts'
import { invalidExperiment } from '../experiment-errors.ts'
import { readGroupTypeIndex } from '../experiment-flag.ts'
import { type Experiment } from '../experiment.ts'
import { type MetricScope } from './query-metric.ts'

/** An experiment that has begun. */
export type LaunchedExperiment = Experiment & { start_date: Date }

/**
 * Lets only what has begun pass, before anything else is said of it: a draft may still lack its metric.
 *
 * @throws {HttpError} 400 `not_launched` for a draft, and for a start in the future.
 */
export function requireLaunched (experiment: Experiment, now: Date): LaunchedExperiment {
  const { start_date: start } = experiment
  if (start !== null && start <= now) return { ...experiment, start_date: start }
  throw invalidExperiment('start_date', 'Experiment has not been launched yet.', 'not_launched')
}

/**
 * Where and when to look for the events of an experiment.
 *
 * @throws {HttpError} 400 for a flag that lost its variants, and for a group type nobody has sent.
 */
export async function findScope (
  sql: Sql, projectId: number, experiment: LaunchedExperiment, now: Date
): Promise<{ scope: MetricScope, variants: Variant[] }> {
  const { key, filters } = experiment.feature_flag
  const variants = variantsOfFlag(filters)
  if (variants.length < 2) {
    throw invalidExperiment('feature_flag', 'Feature flag must have at least 2 variants (control and at least one test variant)')
  }
  const index = readGroupTypeIndex(experiment.parameters) ?? readGroupTypeIndex(filters)
  const [row] = await sql<{ timezone: string, group_type: string | null }[]>`
    SELECT p.timezone, g.group_type
    FROM projects p LEFT JOIN group_types g ON g.project_id = p.id AND g.group_type_index = ${index ?? null}
    WHERE p.id = ${projectId}`
  if (index !== undefined && row?.group_type === null) {
    throw invalidExperiment('parameters__aggregation_group_type_index', `The project has no group type ${index}.`)
  }
  return {
    variants,
    scope: {
      projectId,
      flagKey: key,
      variants: variants.map((variant) => variant.key),
      groupType: row?.group_type ?? null,
      since: experiment.start_date,
      until: experiment.end_date !== null && experiment.end_date < now ? experiment.end_date : now,
      timezone: row?.timezone ?? 'UTC'
    }
  }
}

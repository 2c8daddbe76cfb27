import { useEffect } from 'preact/hooks'
import type { Schema } from '../../api-types.ts'
import { request } from '../api-client.ts'
import { projectId } from '../router.ts'
import { may } from '../session.ts'
import { cohortAges, cohortNames } from './flag-filters.ts'

/** Reads the names of the project's cohorts, so that sentences about flags say them; without them they say ids. */
export function useCohortNames (): void {
  const project = projectId.value
  useEffect(() => {
    const ended = new AbortController()
    cohortNames.value = new Map()
    if (!may('feature_flag:read')) return
    request<{ results: Schema<'Cohort'>[] }>(`/api/projects/${project}/cohorts`, { signal: ended.signal })
      .then(({ results }) => {
        cohortNames.value = new Map(results.map(({ id, name }) => [String(id), name]))
        cohortAges.value = new Map(results.filter(({ kind }) => kind === 'behavior' || kind === 'question').map(({ id, as_of: at }) => [String(id), at]))
      })
      // The screen says itself what does not answer; sentences have ids meanwhile.
      .catch(() => {})
    return () => ended.abort()
  }, [project])
}

/** Carries flags, cohorts, experiments and definitions of PostHog over to a project, through the management API. */
import { isDeepStrictEqual } from 'node:util'
import { HttpError } from '../../engines/errors.ts'
import { fieldsOf } from '../../engines/fields.ts'
import { MalformedFlagError } from '../../engines/flags/flag-definition.ts'
import { toExperiment } from '../../engines/import/posthog-experiments.ts'
import { type CarriedFlag, type CarriedNames, namesOf, toCohort, toFlag } from '../../engines/import/posthog-flags.ts'
import { type Fields, inOrderOfNames, NotCarriedOverError, type PosthogProject, refuse } from '../../engines/import/posthog-project.ts'
import { readCohort } from '../../engines/questions/cohort-definition.ts'
import { listAll, type ManagementClient } from '../management-client.ts'

export interface CarriedItem {
  kind: 'cohort' | 'flag' | 'experiment' | 'event definition' | 'property definition'
  name: string
  outcome: Outcome | 'left out'
  reason?: string
  /** What of it is written otherwise than in PostHog, where it is served as here. */
  note?: string
}

type Outcome = 'created' | 'updated' | 'unchanged'

export interface CarryOverOptions {
  api: ManagementClient
  projectId: number
  isDryRun: boolean
  /** Flags that are here with other fields get those of PostHog. */
  isUpdate: boolean
  withContinuity: boolean
}

/** Each thing is carried over whole or left out; what names something that is left out is left out. */
export async function carryOver (project: PosthogProject, options: CarryOverOptions): Promise<CarriedItem[]> {
  const { api, projectId } = options
  const params = { project_id: projectId }
  const { timezone } = await api.get('/api/projects/{project_id}', { params })
  const items: CarriedItem[] = []
  const planned = new Set<unknown>()
  const transfer: Transfer = {
    project, options, params,
    names: {
      cohorts: new Map(), flags: new Map(),
      groupTypes: await matchGroupTypes(project, options), hasSameTimezone: project.timezone === timezone
    },
    async tryFlag (flag) {
      const isPlanned = ({ type, key, value }: Fields): boolean =>
        type === 'cohort' ? value === PLANNED : type === 'flag' && planned.has(key)
      const draft: unknown = JSON.parse(JSON.stringify(flag), (_, value: unknown) =>
        Array.isArray(value) ? value.filter((item) => !isPlanned(fieldsOf(item))) : value)
      const body = { distinct_id: 'dry-run', flag_keys: [flag.key], draft }
      await api.post('/api/projects/{project_id}/feature_flags/test', { params, body })
      planned.add(flag.key)
    },
    async carry (kind, name, work) {
      const notes: string[] = []
      try {
        const outcome = await work(notes)
        items.push({ kind, name, outcome, ...notes.length > 0 && { note: notes.join('; ') } })
      } catch (error) {
        items.push({ kind, name, outcome: 'left out', reason: reasonOf(error) })
      }
    }
  }
  await carryCohorts(transfer)
  await carryFlags(transfer)
  await carryExperiments(transfer)
  await carryNotes(transfer)
  return items
}

interface Transfer {
  project: PosthogProject
  options: CarryOverOptions
  params: { project_id: number }
  names: CarriedNames & { cohorts: Map<number, number>, flags: Map<string, string> }
  /** Asks the API whether it would take a flag, without the filters on what a dry run does not create. */
  tryFlag: (flag: Pick<CarriedFlag, 'key' | 'filters'>) => Promise<void>
  carry: (kind: CarriedItem['kind'], name: string, work: (notes: string[]) => Promise<Outcome>) => Promise<void>
}

/** In place of the id of a cohort that a dry run does not create. */
const PLANNED = 0

const withoutPlanned = (filters: unknown): unknown => JSON.parse(JSON.stringify(filters), (_, value: unknown) =>
  fieldsOf(value)['type'] === 'cohort' ? { ...fieldsOf(value), value: 1 } : value)

async function carryCohorts ({ project, options, params, names, carry }: Transfer): Promise<void> {
  const { api, isDryRun } = options
  const { results } = await api.get('/api/projects/{project_id}/cohorts', { params })
  for (const cohort of inOrderOfNames(project.cohorts, idOf, ({ filters }) => namesOf(filters, 'cohort'))) {
    await carry('cohort', String(cohort['name']), async () => {
      const body = toCohort(cohort, names)
      const here = results.find(({ name, filters }) => name === body.name && isDeepStrictEqual(filters, body.filters))
      if (isDryRun && here === undefined) readCohort(withoutPlanned(body.filters))
      const { id } = here ?? (isDryRun ? { id: PLANNED } : await api.post('/api/projects/{project_id}/cohorts', { params, body }))
      names.cohorts.set(Number(cohort['id']), id)
      return here === undefined ? 'created' : 'unchanged'
    })
  }
}

async function carryFlags ({ project, options, params, names, carry, tryFlag }: Transfer): Promise<void> {
  const { api, isDryRun, isUpdate } = options
  const listed = await listAll(async (query) => await api.get('/api/projects/{project_id}/feature_flags', { params, query }))
  const { feature_flags: flags } = project
  const idOfKey = new Map(flags.map((flag) => [flag['key'], idOf(flag)]))
  const ordered = inOrderOfNames(flags, idOf, ({ filters }) => namesOf(filters, 'flag').map((name) => idOfKey.get(name) ?? name))
  for (const flag of ordered) {
    await carry('flag', String(flag['key']), async (notes) => {
      const body = toFlag(flag, names, { ...options, notes })
      if (names.flags.get(body.key) === body.key) refuse('another flag in the files has this key')
      const here = listed.find(({ key }) => key === body.key)
      const differing = differingFields(here, body)
      if (differing.length > 0 && !isUpdate) refuse(`already exists here and differs in ${differing.join(', ')}; pass --update to overwrite`)
      const outcome = here === undefined ? 'created' : differing.length > 0 ? 'updated' : 'unchanged'
      if (isDryRun && outcome !== 'unchanged') await tryFlag(body)
      else if (here === undefined) await api.post('/api/projects/{project_id}/feature_flags', { params, body })
      else if (outcome === 'updated') await api.patch('/api/projects/{project_id}/feature_flags/{id}', { params: { ...params, id: here.id }, body })
      names.flags.set(body.key, body.key)
      names.flags.set(idOf(flag), body.key)
      return outcome
    })
  }
}

async function carryExperiments ({ project, options, params, names, carry }: Transfer): Promise<void> {
  const { api, isDryRun } = options
  const listed = await listAll(async (query) => await api.get('/api/projects/{project_id}/experiments', { params, query }))
  for (const experiment of project.experiments) {
    await carry('experiment', String(experiment['name']), async (notes) => {
      const body = toExperiment(experiment, names.flags, notes)
      const isActive = project.feature_flags.some(({ key, active }) => key === body.feature_flag_key && active === true)
      if (body.start_date !== null && body.end_date === null && !isActive) refuse('its flag is off, and launching the experiment here would turn the flag on')
      const here = listed.find(({ name, feature_flag_key: key }) => name === body.name && key === body.feature_flag_key)
      if (here === undefined && !isDryRun) await api.post('/api/projects/{project_id}/experiments', { params, body })
      const differing = differingFields(here, body)
      if (differing.length > 0) refuse(`already exists here and differs in ${differing.join(', ')}`)
      return here === undefined ? 'created' : 'unchanged'
    })
  }
}

async function matchGroupTypes (
  project: PosthogProject, { api, projectId }: CarryOverOptions
): Promise<Map<number, number>> {
  const { results } = await api.get('/api/projects/{project_id}/groups/types', { params: { project_id: projectId } })
  return new Map(project.groups_types.flatMap((theirs) => {
    const here = results.find(({ group_type: name }) => name === theirs['group_type'])
    return here === undefined ? [] : [[Number(theirs['group_type_index']), here.group_type_index]]
  }))
}

/** What people said about events and properties, where nobody has said anything here. */
async function carryNotes ({ project, options: { api, isDryRun }, params, carry }: Transfer): Promise<void> {
  for (const [kind, list, path] of [
    ['event definition', project.event_definitions, '/api/projects/{project_id}/event_definitions'],
    ['property definition', project.property_definitions, '/api/projects/{project_id}/property_definitions']
  ] as const) {
    const noted = list.map((item) => ({ name: String(item['name']), notes: notesOf(item) }))
      .filter(({ notes }) => Object.keys(notes).length > 0)
    const here = noted.length === 0 ? [] : await listAll<Notes>(async (query) => await api.get(path, { params, query }))
    const byName = new Map(here.map((item) => [item.name, item]))
    for (const { name, notes } of noted) {
      await carry(kind, name, async () => {
        const mine = byName.get(name)
        if (mine === undefined) return refuse('no event with it has arrived yet')
        const differing = differingFields(mine, notes)
        if (differing.length === 0) return 'unchanged'
        if (Object.keys(notesOf(mine)).length > 0) refuse(`was already changed here: ${differing.join(', ')}`)
        if (!isDryRun) await api.patch(`${path}/{id}`, { params: { ...params, id: mine.id }, body: notes })
        return 'updated'
      })
    }
  }
}

interface Notes { id: string, name: string, description: string, tags: string[], verified: boolean, hidden: boolean }

function notesOf ({ description, tags, verified, hidden }: Fields | Notes): Record<string, unknown> {
  return Object.fromEntries(Object.entries({ description, tags, verified, hidden })
    .filter(([, value]) => typeof value === 'string' || Array.isArray(value) ? value.length > 0 : value === true))
}

const idOf = (item: Fields): string => String(item['id'])

/** The fields of `body` that something here has otherwise. Times are compared as instants. */
function differingFields (here: object | undefined, body: object): string[] {
  if (here === undefined) return []
  const values: Fields = { ...here }
  return Object.entries(body).flatMap(([name, value]) => {
    const [mine, theirs] = [values[name], value].map((each) => name.endsWith('_date') ? Date.parse(String(each)) : each)
    return isDeepStrictEqual(mine, theirs) ? [] : [name]
  })
}

/** @throws errors that concern the whole import, such as an API that does not answer. */
function reasonOf (error: unknown): string {
  if (error instanceof NotCarriedOverError) return error.message
  if (error instanceof MalformedFlagError) return `${error.attr}: ${error.message}`
  if (error instanceof HttpError && error.status === 400) return `${error.attr?.replace('draft__', '') ?? 'refused'}: ${error.detail}`
  throw error
}

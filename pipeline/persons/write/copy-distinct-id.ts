import { type PersonsCopies } from '../../../platform/persons/persons-copies.ts'
import { personUuid } from '../../../platform/persons/person-uuid.ts'

/** A distinct id that belongs to another person than before. */
export interface AssignedDistinctId {
  projectId: number
  distinctId: string
  personUuid: string
  version: number
}

/** Adds the copies of an assignment: who the id belongs to, and the override when that is not its computed person. */
export function copyDistinctId (copies: PersonsCopies, assigned: AssignedDistinctId): void {
  const { projectId, distinctId, version } = assigned
  const common = { project_id: projectId, person_id: assigned.personUuid, version, is_deleted: 0 } as const
  copies.person_distinct_ids.push({ ...common, distinct_id: distinctId })
  const computed = personUuid(projectId, distinctId)
  if (computed !== assigned.personUuid) copies.person_overrides.push({ ...common, old_person_id: computed })
}

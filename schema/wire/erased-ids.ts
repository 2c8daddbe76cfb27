import { hash } from 'node:crypto'

/** The erased distinct ids of a project, as salted hashes. */
export interface ErasedIds {
  salt: string
  /** When each was erased, epoch milliseconds. */
  at: ReadonlyMap<string, number>
  /** The latest of these times: nothing that happened later needs a look. */
  latest: number
}

/** A row of `erasures`. */
export interface ErasureRow {
  project_id: number
  salt: string
  hashes: string[]
  requested_at: Date
}

/** By project. */
export function toErasedIds (rows: readonly ErasureRow[]): Map<number, ErasedIds> {
  return new Map([...Map.groupBy(rows, (row) => row.project_id)].map(([project, own]) => {
    const at = new Map<string, number>()
    for (const { hashes, requested_at: requested } of own) {
      for (const each of hashes) at.set(each, Math.max(at.get(each) ?? 0, requested.getTime()))
    }
    return [project, { salt: own[0]?.salt ?? '', at, latest: Math.max(...at.values()) }]
  }))
}

/** Whether something that a distinct id did at this time was erased. */
export function isErased (
  { salt, at, latest }: ErasedIds, projectId: number, distinctId: string, time: number
): boolean {
  return time <= latest && time <= (at.get(hashErasedId(salt, projectId, distinctId)) ?? -1)
}

/** Postgres and ClickHouse compute the same, to find the ids of a record in restored data. */
export function hashErasedId (salt: string, projectId: number, distinctId: string): string {
  return hash('sha256', `${salt}:${projectId}:${distinctId}`)
}

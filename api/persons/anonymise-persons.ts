import { randomUUID } from 'node:crypto'
import { parseStoredJson } from '../../engines/body/parse-json.ts'
import { stringifyJson } from '../../engines/body/stringify-json.ts'
import { fieldsOf } from '../../engines/fields.ts'
import type { Sql, TransactionSql } from '../../platform/postgres/connect-postgres.ts'
import { postCopies, postTombstones } from '../../platform/postgres/post-copies.ts'
import { type Anonymised, anonymiseValue, idOf } from '../../schema/wire/anonymise.ts'
import { personUuid } from '../../schema/wire/identity.ts'
import { noCopies, toCopyTime } from '../../schema/wire/persons-copies.ts'
import { clearSamples, type ErasedPersons } from './delete-person.ts'

/**
 * Gives persons, and groups that are named like them, random ids in Postgres, with copies for ClickHouse. A person
 * keeps its row, and so stays on lists; the pipeline keeps it in other cohorts. The caller has the persons lock.
 *
 * @returns what the events have to become.
 */
export async function anonymisePersons (
  transaction: TransactionSql, { projectId, ids, persons }: ErasedPersons,
  { sql, version, removed }: { sql: Sql, version: number, removed: readonly string[] }
): Promise<Anonymised> {
  const by = { ids: Object.fromEntries(ids.map((id) => [id, randomUUID()])), removed }
  const copies = noCopies()
  const common = { project_id: projectId, version, is_deleted: 0 } as const
  const renamed = new Map(ids.map((id) => [personUuid(projectId, id), personUuid(projectId, by.ids[id] ?? '')]))
  for (const { id, uuid } of persons) {
    const [person] = await transaction<[{ properties: string, isIdentified: boolean, createdAt: Date, own: string[] }]>`
      SELECT properties::text AS properties, is_identified AS "isIdentified", created_at AS "createdAt",
        ARRAY(SELECT distinct_id FROM person_distinct_ids WHERE person_id = persons.id) AS own
      FROM persons WHERE id = ${id}`
    const now = renamed.get(uuid) ?? randomUUID()
    renamed.set(uuid, now)
    const properties = anonymiseValue(parseStoredJson(person.properties), by)
    await transaction`
      UPDATE persons SET uuid = ${now}, properties = ${stringifyJson(properties)}::text::jsonb, version = ${version},
        property_times = property_times - ${[...removed]}::text[] WHERE id = ${id}`
    copies.persons.push({
      ...common, person_id: now, properties, is_identified: person.isIdentified,
      created_at: toCopyTime(person.createdAt.getTime())
    })
    for (const each of person.own) {
      const distinctId = by.ids[each] ?? ''
      const computed = personUuid(projectId, distinctId)
      copies.person_distinct_ids.push({ ...common, distinct_id: distinctId, person_id: now })
      if (computed !== now) copies.person_overrides.push({ ...common, old_person_id: computed, person_id: now })
    }
  }
  await postTombstones(transaction, { projectId, uuids: persons.map(({ uuid }) => uuid), version })
  await renameIds(transaction, { sql, projectId, by, version })
  await renameRepairs(transaction, { sql, projectId, by, renamed })
  for (const group of await transaction<{ type: string, key: string, index: number, properties: string, createdAt: Date }[]>`
    SELECT group_type AS type, group_key AS key, group_type_index AS index, properties::text AS properties, groups.created_at AS "createdAt"
    FROM groups JOIN group_types USING (project_id, group_type_index) WHERE project_id = ${projectId} AND group_key = ANY (${Object.values(by.ids)})`) {
    copies.groups.push({
      ...common, group_type: group.type, group_key: group.key, group_type_index: group.index,
      properties: fieldsOf(parseStoredJson(group.properties)), created_at: toCopyTime(group.createdAt.getTime())
    })
  }
  await postCopies(transaction, copies)
  await clearSamples(transaction, projectId, ids)
  return { ...by, persons: Object.fromEntries(renamed) }
}

async function renameIds (
  transaction: TransactionSql,
  { sql, projectId, by, version }: { sql: Sql, projectId: number, by: Anonymised, version: number }
): Promise<void> {
  const renamed = sql`json_each_text(${JSON.stringify(by.ids)}::text::json) AS renamed (id, random)`
  await transaction`
    UPDATE person_distinct_ids SET distinct_id = random, version = ${version} FROM ${renamed} WHERE project_id = ${projectId} AND distinct_id = id`
  await transaction`
    UPDATE flag_hash_keys SET distinct_id = random, hash_key = coalesce((SELECT random FROM ${renamed} WHERE id = hash_key), hash_key)
    FROM ${renamed} WHERE project_id = ${projectId} AND distinct_id = id`
  for (const { key, properties } of await transaction<{ key: string, properties: string }[]>`
    SELECT group_key AS key, properties::text AS properties FROM groups WHERE project_id = ${projectId} AND group_key = ANY (${Object.keys(by.ids)})`) {
    await transaction`
      UPDATE groups SET group_key = ${by.ids[key] ?? key}, properties = ${stringifyJson(anonymiseValue(parseStoredJson(properties), by))}::text::jsonb,
        version = ${version} WHERE project_id = ${projectId} AND group_key = ${key}`
  }
}

/** Repairs, also open ones, name the persons as well: their uuids would tell whose the random ids are. */
async function renameRepairs (
  transaction: TransactionSql,
  { sql, projectId, by, renamed }: { sql: Sql, projectId: number, by: Anonymised, renamed: ReadonlyMap<string, string> }
): Promise<void> {
  for (const { id, ...repair } of await transaction<{ id: number, person: string, persons: string[] | null, distinctIds: string[], parts: string[][] | null }[]>`
    SELECT id, person_uuid AS person, person_uuids AS persons, distinct_ids AS "distinctIds", parts FROM person_repairs
    WHERE project_id = ${projectId} AND (distinct_ids && ${Object.keys(by.ids)} OR person_uuid = ANY (${[...renamed.keys()]}::uuid[]))`) {
    const rename = (id: string): string => idOf(id, by)
    const renamePerson = (uuid: string): string => renamed.get(uuid) ?? uuid
    const parts = repair.parts?.map((part) => part.map(rename)) ?? null
    await transaction`
      UPDATE person_repairs SET person_uuid = ${renamePerson(repair.person)}, person_uuids = ${repair.persons && repair.persons.map(renamePerson)}::uuid[],
        distinct_ids = ${repair.distinctIds.map(rename)}, parts = ${parts && sql.json(parts)}::jsonb WHERE id = ${id}`
  }
}

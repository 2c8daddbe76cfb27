import type { Answer } from '../../api-types.ts'
import { fetchFile } from '../api-client.ts'
import { useAction } from '../confirm.tsx'
import { showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { offerFile } from '../offer-file.ts'
import { Paged, TypedFilter, useList } from '../paging.tsx'
import { query, setQuery } from '../router.ts'
import { Empty, Select, Time } from '../states.tsx'

type Line = Answer<'/api/record'>['results'][number]

const KINDS = ['create', 'change', 'delete', 'act', 'read', 'login', 'logout', 'refusal', 'trim']

/** Who changed what, logged in, or read persons and SQL. */
export function RecordScreen () {
  const filter = Object.fromEntries(['kind', 'object', 'object_id'].map((name) => [name, query.value.get(name) ?? '']))
  const lines = useList<Line>('/api/record', filter)
  const { isBusy, run, failure } = useAction(async () => offerFile(await fetchFile('/api/record/export', { query: filter }), 'record.jsonl'))
  return (
    <section>
      <h1>Record</h1>
      <p class='hint'>Changes, logins, and readings of persons and SQL. Lines never change.</p>
      <div class='toolbar filters'>
        <Select label='Kind' value={filter['kind'] ?? ''} options={[['', 'all'], ...KINDS.map((kind) => [kind, kind] as const)]} onChange={(kind) => setQuery({ kind })} />
        <TypedFilter name='object' label='Object' />
        <TypedFilter name='object_id' label='Id' />
        <button type='button' disabled={isBusy} onClick={run}>Export as JSON lines</button>
      </div>
      {failure}
      <Paged of={lines} what='Lines' empty={<Empty><p>No lines match.</p></Empty>}>
        {(results) => (
          <Rows
            label='Record' of={results} keyOf={({ id }) => id} class='dense'
            columns={[
              ['Time', ({ at }) => <Time at={at} isZoned />], ['Who', describeActor, 'value'], ['From', ({ address }) => address ?? ''],
              ['What', ({ kind, object, object_id: id }) => `${kind} ${object} ${showText(id, 60)}`, 'value'],
              ['Details', (line) => <details><summary>{summarise(line)}</summary><pre>{JSON.stringify({ before: line.before, after: line.after, detail: line.detail }, null, 2)}</pre></details>]
            ]}
          />
        )}
      </Paged>
    </section>
  )
}

function describeActor ({ user, key_label: key }: Line): string {
  return `${showText(user ?? 'a command, or unknown', 60)}${key === null ? '' : ` by key ${showText(key, 40)}`}`
}

/** The fields that differ, or how much was read. */
function summarise ({ before, after, rows, kind }: Line): string {
  if (rows !== null) return `${rows} rows`
  if (before == null || after == null) return kind
  return Object.keys(after).filter((name) => JSON.stringify(after[name]) !== JSON.stringify(before[name]) && name !== 'updated_at').join(', ')
}

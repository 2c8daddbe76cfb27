import type { Answer } from '../../api-types.ts'
import { fetchFile, request } from '../api-client.ts'
import { useAttempt } from '../confirm.tsx'
import { showText } from '../format.ts'
import { Rows } from '../frame/lists.tsx'
import { offerFile } from '../offer-file.ts'
import { OlderNewer, TypedFilter, useCursorPages } from '../paging.tsx'
import { query, setQuery } from '../router.ts'
import { Empty, Failed, Select, Show, Time } from '../states.tsx'

type Lines = Answer<'/api/record'>
type Line = Lines['results'][number]

const KINDS = ['create', 'change', 'delete', 'act', 'read', 'login', 'logout', 'refusal', 'trim']

/** Who changed what, logged in, or read persons and SQL. */
export function RecordScreen () {
  const filter = Object.fromEntries(['kind', 'object', 'object_id'].map((name) => [name, query.value.get(name) ?? '']))
  const lines = useCursorPages(`record ${JSON.stringify(filter)}`, async (after, signal) =>
    await request<Lines>('/api/record', { query: { ...filter, after, limit: 50 }, signal }))
  const { isBusy, error, attempt } = useAttempt()
  const download = async (): Promise<void> => offerFile(await fetchFile('/api/record/export', { query: filter }), 'record.jsonl')
  return (
    <section>
      <h1>Record</h1>
      <p class='hint'>Changes, logins, and readings of persons and SQL. Lines never change.</p>
      <div class='toolbar filters'>
        <Select label='Kind' value={filter['kind'] ?? ''} options={[['', 'all'], ...KINDS.map((kind) => [kind, kind] as const)]} onChange={(kind) => setQuery({ kind })} />
        <TypedFilter name='object' label='Object' />
        <TypedFilter name='object_id' label='Id' />
        <button type='button' disabled={isBusy} onClick={() => { void attempt(download) }}>Export as JSON lines</button>
      </div>
      {error !== undefined && <Failed error={error} onRetry={() => { void attempt(download) }} />}
      <Show of={lines} what='Lines'>
        {({ results }) => results.length === 0
          ? <Empty><p>No lines match.</p></Empty>
          : (
            <>
              <OlderNewer of={lines} />
              <Rows
                label='Record' of={results} keyOf={({ id }) => id} class='dense'
                columns={[
                  ['Time', ({ at }) => <Time at={at} isZoned />], ['Who', describeActor, 'value'], ['From', ({ address }) => address ?? ''],
                  ['What', ({ kind, object, object_id: id }) => `${kind} ${object} ${showText(id, 60)}`, 'value'],
                  ['Details', (line) => <details><summary>{summarise(line)}</summary><pre>{JSON.stringify({ before: line.before, after: line.after, detail: line.detail }, null, 2)}</pre></details>]
                ]}
              />
            </>
            )}
      </Show>
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

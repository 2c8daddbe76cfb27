import { useState } from 'preact/hooks'
import type { Answer } from '../../../schema/api-types.ts'
import { request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { formatAgo, formatCounted, formatUtc, showText, UNKNOWN } from '../format.ts'
import { type Loaded, useAnswer } from '../load.ts'
import { Paged, Search, useList } from '../paging.tsx'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Checkbox, Empty, OnOff, Switch, Table } from '../states.tsx'
import { useCohortNames } from './cohorts.ts'
import { FlagDetail } from './flag-detail.tsx'
import { describeRollout, type FeatureFlag } from './flag-filters.ts'
import { TestAs } from './test-as.tsx'

/** The flags of a project, one of them (`/<id>`, `/new`), and all of them for somebody (`/test`). */
export function FlagsScreen () {
  const id = path.value[3]
  useCohortNames()
  if (id === 'test') return <TestAll />
  if (id !== undefined) return <FlagDetail key={id} id={id} />
  return <FlagList />
}

function TestAll () {
  return (
    <section>
      <p><a {...linkTo(`/projects/${projectId.value}/flags`)}>Flags</a></p>
      <h1>All flags for somebody</h1>
      <TestAs />
    </section>
  )
}

function FlagList () {
  const search = query.value.get('search') ?? ''
  const isStaleOnly = query.value.get('stale') === 'only'
  const flags = useList<FeatureFlag>(`/api/projects/${projectId.value}/feature_flags/`, { search, active: isStaleOnly ? 'STALE' : undefined })
  return (
    <section>
      <h1>Flags</h1>
      <p class='hint'>The next request for flags is answered with a change within a second; browsers ask every few minutes, local evaluation every 30 s.</p>
      <div class='toolbar'>
        <Search label='Search flags' />
        <Checkbox label='Only stale' isOn={isStaleOnly} onChange={(isOn) => setQuery({ stale: isOn ? 'only' : '' })} />
        <a {...linkTo(`/projects/${projectId.value}/flags/test`)}>Test all as somebody</a>
        {may('feature_flag:write') && <a class='button' {...linkTo(`/projects/${projectId.value}/flags/new`)}>New flag</a>}
      </div>
      <Paged of={flags} what='Flags' empty={<NoFlags search={search} isStaleOnly={isStaleOnly} />}>
        {(results) => <FlagTable flags={results} onChanged={flags.reload} />}
      </Paged>
    </section>
  )
}

function NoFlags ({ search, isStaleOnly }: { search: string, isStaleOnly: boolean }) {
  if (search !== '') return <Empty><p>No {isStaleOnly && 'stale '}flag has all these words: {showText(search)}</p></Empty>
  if (isStaleOnly) return <Empty><p>No flag is stale: each was changed, or has done something, in the last 30 days.</p></Empty>
  return (
    <Empty>
      <p>There are no flags yet.</p>
      {may('feature_flag:write') && <p><a {...linkTo(`/projects/${projectId.value}/flags/new`)}>Make the first one</a>: conditions say for whom it is on, and you can test it as somebody before you save it.</p>}
    </Empty>
  )
}

type Usage = Answer<'/api/projects/{project_id}/feature_flags/usage'>
type FlagUsage = Usage['results'][number]

function FlagTable ({ flags, onChanged }: { flags: readonly FeatureFlag[], onChanged: () => void }) {
  const [turned, setTurned] = useState<FeatureFlag>()
  const ids = flags.map(({ id }) => id).join()
  const usage = useAnswer<Usage>(`/api/projects/${projectId.value}/feature_flags/usage/`, { ids })
  const usageOf = new Map(usage.value?.results.map((each) => [each.id, each]))
  return (
    <>
      <UsageNotice usage={usage} />
      <Table label='Flags' head={['Key', 'On', 'For whom', 'Last called', 'Name', 'Changed']}>
        {flags.map((flag) => (
          <tr key={flag.id}>
            <td class='value'><a {...linkTo(`/projects/${projectId.value}/flags/${flag.id}`)}>{showText(flag.key, 60)}</a></td>
            <td>
              {may('feature_flag:write')
                ? <Switch of={showText(flag.key, 60)} isOn={flag.active} onPress={() => setTurned(flag)} />
                : <OnOff isOn={flag.active} />}
            </td>
            <td class='wide'>{showText(describeRollout(flag.filters), 120)}</td>
            <td class='wide'><LastCall usage={usageOf.get(flag.id)} isReported={usage.value?.is_reported === true} /></td>
            <td class='wide'>{showText(flag.name, 120)}</td>
            <td title={formatUtc(flag.updated_at)}>{formatAgo(flag.updated_at, Date.now())}</td>
          </tr>
        ))}
      </Table>
      {turned !== undefined && <TurnDialog flag={turned} onClose={() => setTurned(undefined)} onTurned={onChanged} />}
    </>
  )
}

/** Asks before a flag is turned on or off: it holds for everybody within a second. */
function TurnDialog ({ flag, onClose, onTurned }: { flag: FeatureFlag, onClose: () => void, onTurned: () => void }) {
  const turn = async (): Promise<void> => {
    await request(`/api/projects/${projectId.value}/feature_flags/${flag.id}/`, { method: 'PATCH', body: { active: !flag.active, version: flag.version } })
    onTurned()
  }
  const word = flag.active ? 'off' : 'on'
  return (
    <Ask title={`Turn ${word} ${showText(flag.key, 60)}`} action={`Turn ${word}`} onClose={onClose} onConfirm={turn}>
      <p>{flag.active ? 'It will be off for everyone.' : `It will be for: ${showText(describeRollout(flag.filters), 300)}.`} The next request for flags is answered so.</p>
    </Ask>
  )
}

/** Why the column of calls is empty, if it is. The list stays. */
function UsageNotice ({ usage: { value, error, reload } }: { usage: Loaded<Usage> }) {
  if (error !== undefined) {
    return <p class='hint' role='status'>When flags were last called is not known: {error.message} <button type='button' class='quiet' onClick={reload}>Try again</button></p>
  }
  if (value?.is_reported === false) return <p class='hint'>No SDK of this project reported a call of a flag in 30 days.</p>
  return null
}

function LastCall ({ usage, isReported }: { usage: FlagUsage | undefined, isReported: boolean }) {
  if (usage === undefined) return <>{UNKNOWN}</>
  const { last_called_at: at, calls, status, reason } = usage
  return (
    <>
      {at !== null
        ? <span title={`${formatUtc(at)}; ${formatCounted(calls, 'call')} in 30 days`}>{formatAgo(at, Date.now())}</span>
        : isReported ? 'not in 30 days' : UNKNOWN}
      {status === 'stale' && <div class='stale'><span class='tag'>stale</span>{reason}</div>}
    </>
  )
}

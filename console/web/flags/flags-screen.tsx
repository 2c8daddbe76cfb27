import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { formatAgo, formatUtc, showText } from '../format.ts'
import { Paged, Search, useList } from '../paging.tsx'
import { linkTo, path, projectId, query } from '../router.ts'
import { may } from '../session.ts'
import { Empty, OnOff, Switch, Table } from '../states.tsx'
import { Title } from '../title.tsx'
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
      <Title name='All flags for somebody' />
      <TestAs />
    </section>
  )
}

function FlagList () {
  const search = query.value.get('search') ?? ''
  const flags = useList<FeatureFlag>(`/api/projects/${projectId.value}/feature_flags/`, { search })
  return (
    <section>
      <h1>Flags</h1>
      <p class='hint'>Changes apply to flag requests within a second. Browsers request flags every few minutes, local evaluation every 30 s.</p>
      <div class='toolbar'>
        <Search label='Search flags' />
        <a {...linkTo(`/projects/${projectId.value}/flags/test`)}>Test all as somebody</a>
        {may('feature_flag:write') && <a class='button' {...linkTo(`/projects/${projectId.value}/flags/new`)}>New flag</a>}
      </div>
      <Paged of={flags} what='Flags' empty={<NoFlags search={search} />}>
        {(results) => <FlagTable flags={results} onChanged={flags.reload} />}
      </Paged>
    </section>
  )
}

function NoFlags ({ search }: { search: string }) {
  if (search !== '') return <Empty><p>No flag has all these words: {showText(search)}</p></Empty>
  return (
    <Empty>
      <p>There are no flags yet.</p>
      {may('feature_flag:write') && <p><a {...linkTo(`/projects/${projectId.value}/flags/new`)}>Create the first flag</a>: conditions select the users who get it, and you can test it for a user before saving.</p>}
    </Empty>
  )
}

function FlagTable ({ flags, onChanged }: { flags: readonly FeatureFlag[], onChanged: () => void }) {
  const [turned, setTurned] = useState<FeatureFlag>()
  return (
    <>
      <Table label='Flags' head={['Key', 'On', 'Conditions', 'Name', 'Changed']}>
        {flags.map((flag) => (
          <tr key={flag.id}>
            <td class='value'><a {...linkTo(`/projects/${projectId.value}/flags/${flag.id}`)}>{showText(flag.key, 60)}</a></td>
            <td>
              {may('feature_flag:write')
                ? <Switch of={showText(flag.key, 60)} isOn={flag.active} onPress={() => setTurned(flag)} />
                : <OnOff isOn={flag.active} />}
            </td>
            <td class='wide'>{showText(describeRollout(flag.filters), 120)}</td>
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
  const turn = async () => await request(`/api/projects/${projectId.value}/feature_flags/${flag.id}/`, { method: 'PATCH', body: { active: !flag.active, version: flag.version } })
  const word = flag.active ? 'off' : 'on'
  return (
    <Ask title={`Turn ${word} ${showText(flag.key, 60)}`} action={`Turn ${word}`} onClose={onClose} onConfirm={turn} onDone={onTurned}>
      <p>{flag.active ? 'It will be off for everyone.' : `It will be for: ${showText(describeRollout(flag.filters), 300)}.`} Applies to the next flag request.</p>
    </Ask>
  )
}

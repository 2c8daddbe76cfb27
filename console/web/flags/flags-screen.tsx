import { useState } from 'preact/hooks'
import { request } from '../api-client.ts'
import { Ask } from '../confirm.tsx'
import { showText } from '../format.ts'
import { BackTo, ListScreen, searched } from '../frame/lists.tsx'
import { useList } from '../paging.tsx'
import { linkTo, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Ago, OnOff, Switch } from '../states.tsx'
import { Title } from '../title.tsx'
import { useCohortNames } from './cohorts.ts'
import { FlagDetail } from './flag-detail.tsx'
import { describeRollout, type FeatureFlag } from './flag-filters.ts'
import { TestAs } from './test-as.tsx'

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
      <BackTo home='flags' title='Flags' />
      <Title name='All flags for somebody' />
      <TestAs />
    </section>
  )
}

function FlagList () {
  const [turned, setTurned] = useState<FeatureFlag>()
  const home = `/projects/${projectId.value}/flags`
  const flags = useList<FeatureFlag>(`/api/projects/${projectId.value}/feature_flags/`, { search: searched() })
  const mayWrite = may('feature_flag:write')
  return (
    <ListScreen
      title='Flags' of={flags} keyOf={({ id }) => id} unfound={`No flag has all these words: ${showText(searched())}`}
      hint='Changes apply to flag requests within a second. Browsers request flags every few minutes, local evaluation every 30 s.'
      none={
        <>
          <p>There are no flags yet.</p>
          {mayWrite && <p><a {...linkTo(`${home}/new`)}>Create the first flag</a>: conditions select the users who get it, and you can test it for a user before saving.</p>}
        </>
      }
      tools={<><a {...linkTo(`${home}/test`)}>Test all as somebody</a>{mayWrite && <a class='button' {...linkTo(`${home}/new`)}>New flag</a>}</>}
      columns={[
        ['Key', ({ id, key }) => <a {...linkTo(`${home}/${id}`)}>{showText(key, 60)}</a>, 'value'],
        ['On', (flag) => mayWrite
          ? <Switch of={showText(flag.key, 60)} isOn={flag.active} onPress={() => setTurned(flag)} />
          : <OnOff isOn={flag.active} />],
        ['Conditions', ({ filters }) => showText(describeRollout(filters), 120), 'wide'],
        ['Name', ({ name }) => showText(name, 120), 'wide'],
        ['Changed', ({ updated_at: at }) => <Ago at={at} />]
      ]}
    >
      {turned !== undefined && <TurnDialog flag={turned} onClose={() => setTurned(undefined)} onTurned={flags.reload} />}
    </ListScreen>
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

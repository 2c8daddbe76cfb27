import { showText, zoneLabel } from '../format.ts'
import { ListScreen, searched } from '../frame/lists.tsx'
import { useLoaded } from '../load.ts'
import { useList } from '../paging.tsx'
import { linkTo, path, projectId } from '../router.ts'
import { may } from '../session.ts'
import { Time } from '../states.tsx'
import { AlertDetail, listTargets } from './alert-detail.tsx'
import { alertsPath, AlertState } from './alert-history.tsx'
import { type Alert, describeAlert } from './describe-alert.ts'

/** Windows close: alerts are asked for again after so long, in milliseconds. */
const EVERY_MS = 10_000

export function AlertsScreen () {
  const id = path.value[3]
  return id === undefined ? <AlertList /> : <AlertDetail key={id} id={id} />
}

function AlertList () {
  const home = `/projects/${projectId.value}/alerts`
  const alerts = useList<Alert>(alertsPath(), { search: searched() }, { everyMs: EVERY_MS })
  const targets = useLoaded(`targets ${projectId.value}`, listTargets)
  const nameOf = (target: number): string => showText(targets.value?.find(({ id }) => id === target)?.name ?? `target ${target}`, 60)
  return (
    <ListScreen
      title='Alerts' of={alerts} keyOf={({ id }) => id} none='There are no alerts yet.' unfound='No alert has this name.'
      hint='Each window is evaluated once, when all its events are stored. Boards are sent each day or each Monday.'
      tools={may('query:write') && <a class='button' {...linkTo(`${home}/new`)}>New alert</a>}
      columns={[
        ['Alert', ({ id, name }) => <a {...linkTo(`${home}/${id}`)}>{showText(name, 80)}</a>, 'wide'],
        ['When', describeAlert, 'wide'],
        ['State', (alert) => <AlertState of={alert} />],
        [`Evaluated through (${zoneLabel()})`, ({ evaluated_through: at }) => <Time at={at} />],
        ['To', ({ targets: to }) => to.map(nameOf).join(', '), 'wide']
      ]}
    />
  )
}

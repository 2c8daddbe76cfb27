import { computed, effect, signal } from '@preact/signals'
import { zone } from './format.ts'
import { session } from './session.ts'
import { shownProject } from './shown-project.ts'
import { Select } from './states.tsx'

/** Where the browser keeps the choice. */
const KEY = 'millrace time zone'

const chosen = signal(localStorage.getItem(KEY))

/** Those of the project, the browser and ClickHouse, each once. */
const zones = computed(() => {
  const project = session.value?.projects.find(({ id }) => id === shownProject.value)
  return [...new Set([project?.timezone ?? 'UTC', Intl.DateTimeFormat().resolvedOptions().timeZone, 'UTC'])]
})

effect(() => { zone.value = zones.value.find((each) => each === chosen.value) ?? zones.value[0] ?? 'UTC' })

/** The choice of the zone in which times are shown; the project's until another is chosen. */
export function TimeZone () {
  if (zones.value.length < 2) return null
  return (
    <div class='zone'>
      <Select
        label='Times in' value={zone.value} options={zones.value.map((each) => [each, each] as const)}
        onChange={(value) => { localStorage.setItem(KEY, value); chosen.value = value }}
      />
    </div>
  )
}

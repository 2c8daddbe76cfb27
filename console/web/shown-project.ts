import { computed, effect, signal } from '@preact/signals'
import { projectId } from './router.ts'
import { session } from './session.ts'

const chosen = signal<number | undefined>(undefined)

effect(() => { if (projectId.value !== undefined) chosen.value = projectId.value })

/** The project that the menu leads to: of screens without one, such as Health, the last one. */
export const shownProject = computed(() => {
  const projects = session.value?.projects ?? []
  return projectId.value ?? (projects.some(({ id }) => id === chosen.value) ? chosen.value : projects[0]?.id)
})

/** Chooses a project where none is shown. */
export const chooseProject = (id: number): void => { chosen.value = id }

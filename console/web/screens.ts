import type { ComponentType } from 'preact'
import type { Scope } from '../../schema/scopes.ts'
import type { Session } from '../api-types.ts'
import { may } from './session.ts'

/** A screen: loaded when it is first opened. */
export interface Screen {
  name: string
  title: string
  /** By what else it is found. */
  words?: string
  /** What a key must be allowed to do to see it. */
  scope: Scope
  /** False: it is about the installation. */
  isOfProject: boolean
  /** Needs a key for all projects: the default for screens about the installation. */
  needsAllProjects?: boolean
  /** Only for administrators. */
  needsEverything?: boolean
  /** Not for a role that does not see persons. */
  needsPersons?: boolean
  /** Opened first by whoever may see it. */
  isEntrance?: boolean
  load: () => Promise<ComponentType>
}

export interface ScreenGroup { title: string, screens: Screen[] }

/**
 * Every screen, by what people come to do, in the order of the menu. Health is opened first, or the first that a key
 * may see.
 */
const GROUPS: ScreenGroup[] = [
  {
    title: 'Ask',
    screens: [
      { name: 'questions', title: 'Questions', words: 'trend funnel retention chart conversion compare report', scope: 'query:read', isOfProject: true, load: async () => (await import('./questions/questions-screen.tsx')).QuestionsScreen },
      { name: 'boards', title: 'Boards', words: 'dashboard', scope: 'query:read', isOfProject: true, load: async () => (await import('./boards/boards-screen.tsx')).BoardsScreen },
      { name: 'alerts', title: 'Alerts', words: 'notification threshold report slack mail', scope: 'query:read', isOfProject: true, load: async () => (await import('./alerts/alerts-screen.tsx')).AlertsScreen }
    ]
  },
  {
    title: 'Watch',
    screens: [
      { name: 'health', title: 'Health', words: 'status errors metrics lag', scope: 'project:read', isOfProject: false, isEntrance: true, load: async () => (await import('./administration/health-screen.tsx')).HealthScreen },
      { name: 'live', title: 'Live events', words: 'logs stream', scope: 'event:read', isOfProject: true, load: async () => (await import('./live/live-screen.tsx')).LiveScreen },
      { name: 'stored', title: 'Stored events', words: 'logs history', scope: 'event:read', isOfProject: true, load: async () => (await import('./live/stored-screen.tsx')).StoredScreen },
      { name: 'find', title: 'Find an event', words: 'receipt uuid lost', scope: 'event:read', isOfProject: true, load: async () => (await import('./receipts/find-screen.tsx')).FindScreen },
      { name: 'dead-letters', title: 'Dead letters', words: 'errors failed replay', scope: 'dead_letter:read', isOfProject: true, load: async () => (await import('./dead-letters/dead-letters-screen.tsx')).DeadLettersScreen },
      { name: 'warnings', title: 'Warnings', words: 'errors refused dropped', scope: 'event:read', isOfProject: true, load: async () => (await import('./connect/warnings-screen.tsx')).WarningsScreen }
    ]
  },
  {
    title: 'Decide',
    screens: [
      { name: 'flags', title: 'Flags', words: 'feature toggle rollout', scope: 'feature_flag:read', isOfProject: true, load: async () => (await import('./flags/flags-screen.tsx')).FlagsScreen },
      { name: 'experiments', title: 'Experiments', words: 'a/b test variant', scope: 'experiment:read', isOfProject: true, load: async () => (await import('./experiments/experiments-screen.tsx')).ExperimentsScreen }
    ]
  },
  {
    title: 'Explore',
    screens: [
      { name: 'persons', title: 'Persons', words: 'people users customers', scope: 'person:read', isOfProject: true, load: async () => (await import('./persons/persons-screen.tsx')).PersonsScreen },
      { name: 'cohorts', title: 'Cohorts', words: 'segment audience behavior list', scope: 'feature_flag:read', isOfProject: true, load: async () => (await import('./persons/cohorts-screen.tsx')).CohortsScreen },
      { name: 'groups', title: 'Groups', words: 'companies accounts', scope: 'person:read', isOfProject: true, load: async () => (await import('./persons/groups-screen.tsx')).GroupsScreen },
      { name: 'sql', title: 'SQL', words: 'query clickhouse csv', scope: 'query:read', isOfProject: true, needsAllProjects: true, needsPersons: true, load: async () => (await import('./sql/sql-screen.tsx')).SqlScreen }
    ]
  },
  {
    title: 'Define',
    screens: [
      { name: 'events', title: 'Events', scope: 'event_definition:read', isOfProject: true, load: async () => (await import('./definitions/events-screen.tsx')).EventsScreen },
      { name: 'properties', title: 'Properties', scope: 'property_definition:read', isOfProject: true, load: async () => (await import('./definitions/properties-screen.tsx')).PropertiesScreen },
      { name: 'schemas', title: 'Schemas', words: 'validation quarantine', scope: 'event_definition:read', isOfProject: true, load: async () => (await import('./schemas/schemas-screen.tsx')).SchemasScreen },
      { name: 'rules', title: 'Rules', words: 'drop transform', scope: 'event_definition:read', isOfProject: true, load: async () => (await import('./rules/rules-screen.tsx')).RulesScreen }
    ]
  },
  {
    title: 'Operate',
    screens: [
      { name: 'connect', title: 'Connect', words: 'sdk snippet install', scope: 'project:read', isOfProject: true, load: async () => (await import('./connect/connect-screen.tsx')).ConnectScreen },
      { name: 'imports', title: 'Imports', words: 'migration history', scope: 'event:read', isOfProject: true, load: async () => (await import('./imports/imports-screen.tsx')).ImportsScreen },
      { name: 'exports', title: 'Exports', words: 'parquet s3 warehouse batch', scope: 'project:read', isOfProject: true, load: async () => (await import('./administration/exports-screen.tsx')).ExportsScreen },
      { name: 'targets', title: 'Targets', words: 'slack webhook mail destination notification', scope: 'project:read', isOfProject: true, load: async () => (await import('./alerts/targets-screen.tsx')).TargetsScreen },
      { name: 'usage', title: 'Usage', words: 'quota limit volume', scope: 'project:read', isOfProject: true, load: async () => (await import('./quotas/quotas-screen.tsx')).QuotasScreen },
      { name: 'people', title: 'People', words: 'users invite roles login', scope: 'user:write', isOfProject: false, needsEverything: true, load: async () => (await import('./administration/people-screen.tsx')).PeopleScreen },
      { name: 'record', title: 'Record', words: 'audit log history who', scope: 'user:write', isOfProject: false, needsAllProjects: false, needsEverything: true, load: async () => (await import('./administration/record-screen.tsx')).RecordScreen },
      { name: 'keys', title: 'Keys', words: 'token login access', scope: 'user:read', isOfProject: false, needsAllProjects: false, load: async () => (await import('./administration/keys-screen.tsx')).KeysScreen },
      {
        name: 'installation', title: 'Projects', words: 'time zone settings', scope: 'project:read', isOfProject: false,
        load: async () => (await import('./administration/installation-screen.tsx')).InstallationScreen
      }
    ]
  }
]

/** What a link shows to people who are not logged in. */
export const SHARED: Pick<Screen, 'title' | 'load'> = { title: 'The board', load: async () => (await import('./boards/shared-board.tsx')).SharedBoard }

/**
 * The groups with the screens that the key of a session may see; groups of none are left out.
 *
 * @param project  The one that is shown; undefined when the key has none.
 */
export function openGroups (session: Session, project: number | undefined): ScreenGroup[] {
  const isOpen = (
    { scope, isOfProject, needsAllProjects = !isOfProject, needsEverything, needsPersons }: Screen
  ): boolean =>
    may(scope, isOfProject ? project : undefined) && (!isOfProject || project !== undefined) &&
    (session.all_projects || !needsAllProjects) && (needsEverything !== true || session.scopes.includes('*')) && (needsPersons !== true || session.sees_persons)
  return GROUPS
    .map(({ title, screens }) => ({ title, screens: screens.filter(isOpen) }))
    .filter(({ screens }) => screens.length > 0)
}

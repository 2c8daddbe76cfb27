/** The queries of `docs/query/queries`, as they are: a test there counts their answers by hand. */
import definitionUsage from '../../../docs/query/queries/definition_usage.sql'
import experimentExposure from '../../../docs/query/queries/experiment_exposure.sql'
import funnel from '../../../docs/query/queries/funnel.sql'
import groups from '../../../docs/query/queries/groups.sql'
import paths from '../../../docs/query/queries/paths.sql'
import persons from '../../../docs/query/queries/persons.sql'
import propertyBreakdown from '../../../docs/query/queries/property_breakdown.sql'
import retention from '../../../docs/query/queries/retention.sql'
import sessions from '../../../docs/query/queries/sessions.sql'
import trend from '../../../docs/query/queries/trend.sql'

export interface Sample { name: string, answers: string, query: string }

export const SAMPLES: readonly Sample[] = [
  { name: 'Trend', answers: 'Events and people by day', query: trend },
  { name: 'Funnel', answers: 'How many people got at least as far as each of three steps', query: funnel },
  { name: 'Retention', answers: 'Of the people first seen on a day, who came back after how many days', query: retention },
  { name: 'Paths', answers: 'Which page follows which', query: paths },
  { name: 'Sessions', answers: 'Length, first page and size of sessions', query: sessions },
  { name: 'Persons', answers: 'Events by person, merges followed', query: persons },
  { name: 'Groups', answers: 'Events and people by group', query: groups },
  { name: 'Exposure to an experiment', answers: 'People by variant', query: experimentExposure },
  { name: 'Breakdown by property', answers: 'An event by the values of a property', query: propertyBreakdown },
  { name: 'Use of definitions', answers: 'Volumes and properties of all events, over all time', query: definitionUsage }
]

import { useEffect, useState } from 'preact/hooks'
import { request, type Page } from '../api-client.ts'
import { formatAgo, formatCount, formatTime, showText } from '../format.ts'
import { useLoaded } from '../load.ts'
import { linkTo, path, projectId, query, setQuery } from '../router.ts'
import { may } from '../session.ts'
import { Empty, Show } from '../states.tsx'
import { FlagDetail } from './flag-detail.tsx'
import { describeRollout, type FeatureFlag } from './flag-filters.ts'
import { TestAs } from './test-as.tsx'

const PAGE = 50

/** The search waits so long for the next key, in milliseconds. */
const TYPING_MS = 150

/** The flags of a project, one of them (`/<id>`, `/new`), and all of them for somebody (`/test`). */
export function FlagsScreen () {
  const id = path.value[3]
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
  const [typed, setTyped] = useState(search)
  const [offset, setOffset] = useState(0)
  useEffect(() => { setOffset(0) }, [search, projectId.value])
  useEffect(() => {
    if (typed === search) return
    const timer = setTimeout(() => setQuery({ search: typed }), TYPING_MS)
    return () => clearTimeout(timer)
  }, [typed])
  const flags = useLoaded(`flags ${projectId.value} ${search} ${offset}`, async (signal) =>
    await request<Page<FeatureFlag>>(`/api/projects/${projectId.value}/feature_flags/`, { query: { search, limit: PAGE, offset }, signal }))
  return (
    <section>
      <h1>Flags</h1>
      <p class='hint'>SDKs follow a change within a second.</p>
      <div class='toolbar'>
        <input type='search' aria-label='Search flags' placeholder='Search flags' value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <a {...linkTo(`/projects/${projectId.value}/flags/test`)}>Test all as somebody</a>
        {may('feature_flag:write') && <a {...linkTo(`/projects/${projectId.value}/flags/new`)}>New flag</a>}
      </div>
      <Show of={flags} what='Flags'>
        {(page) => page.count === 0
          ? <Empty><p>{search === '' ? 'There are no flags yet.' : `No flag has all these words: ${search}`}</p></Empty>
          : <FlagTable page={page} offset={offset} onOffset={setOffset} />}
      </Show>
    </section>
  )
}

function FlagTable ({ page, offset, onOffset }: { page: Page<FeatureFlag>, offset: number, onOffset: (offset: number) => void }) {
  const { count, next, results } = page
  return (
    <>
      <div class='toolbar'>
        <span role='status'>{formatCount(offset + 1)} to {formatCount(offset + results.length)} of {formatCount(count)}</span>
        <button type='button' disabled={offset === 0} onClick={() => onOffset(Math.max(0, offset - PAGE))}>Previous</button>
        <button type='button' disabled={next === null} onClick={() => onOffset(offset + PAGE)}>Next</button>
      </div>
      <div class='scroll' role='region' aria-label='Flags' tabIndex={0}>
        <table>
          <thead>
            <tr><th scope='col'>Key</th><th scope='col'>On</th><th scope='col'>For whom</th><th scope='col'>Name</th><th scope='col'>Changed</th></tr>
          </thead>
          <tbody>
            {results.map((flag) => (
              <tr key={flag.id}>
                <td><a {...linkTo(`/projects/${projectId.value}/flags/${flag.id}`)}>{showText(flag.key, 60)}</a></td>
                <td>{flag.active ? 'on' : 'off'}</td>
                <td class='wide'>{showText(describeRollout(flag.filters), 120)}</td>
                <td class='wide'>{showText(flag.name, 120)}</td>
                <td title={`${formatTime(flag.updated_at)} UTC`}>{formatAgo(flag.updated_at, Date.now())}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

import { render } from 'preact'
import { useEffect } from 'preact/hooks'
import type { ApiError } from './api-client.ts'
import { LeaveDialog } from './frame/unsaved.tsx'
import { Join, Login, LoginAgain } from './login.tsx'
import { invitation, loginAwaited, resumeSession, session, sessionFailure } from './session.ts'
import { path } from './router.ts'
import { SHARED } from './screens.ts'
import { LazyScreen, Shell } from './shell.tsx'
import { Failed } from './states.tsx'
import './style.css'

/** Between two tries to find out who is logged in, in milliseconds. */
const AGAIN_MS = 3000

/** Whether this is the board of a link, which nobody logs in for. */
const isShared = path.value[0] === 'shared'

/** The console: the login until somebody is logged in, then the shell with its screens. */
function Console () {
  if (isShared) return <main class='shared'><LazyScreen screen={SHARED} /></main>
  if (invitation.value !== undefined) return <main class='login'><Join token={invitation.value} /></main>
  if (session.value === null) return <main class='login'><Login /></main>
  if (session.value !== undefined) return <><Shell session={session.value} /><LeaveDialog />{loginAwaited.value && <LoginAgain of={session.value} />}</>
  return sessionFailure.value === undefined ? null : <Unreachable error={sessionFailure.value} />
}

/** Nobody is logged out by a server that is away: it is asked again until it answers. */
function Unreachable ({ error }: { error: ApiError }) {
  useEffect(() => {
    const timer = setTimeout(() => { void resumeSession() }, AGAIN_MS)
    return () => clearTimeout(timer)
  }, [error])
  return (
    <main>
      <h1>Millrace</h1>
      <Failed error={error} onRetry={() => { void resumeSession() }} />
      <p class='hint'>Your login cannot be checked at the moment. Retrying every three seconds.</p>
    </main>
  )
}

render(<Console />, document.getElementById('app')!)
if (!isShared) void resumeSession()

import { useState } from 'preact/hooks'
import { ApiError } from './api-client.ts'
import { linkRefusal, login } from './session.ts'

/** Asks for a personal API key, once: a session follows. */
export function Login () {
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const refusal = error ?? linkRefusal.value

  async function submit (event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const key = String(new FormData(event.currentTarget as HTMLFormElement).get('key') ?? '')
    setBusy(true)
    try {
      await login({ personal_api_key: key })
    } catch (cause) {
      setError(cause instanceof ApiError ? cause.message : String(cause))
      setBusy(false)
    }
  }

  return (
    <main class='login'>
      <h1>Millrace</h1>
      <form onSubmit={(event) => { void submit(event) }}>
        <label for='key'>Personal API key</label>
        <input id='key' name='key' type='password' required autofocus autocomplete='off' placeholder='phx_…' aria-describedby='key-help' />
        <p id='key-help' class='hint'>
          Printed by <code>npm start</code>, or made with <code>npx millrace keys create</code>. You see and change what the key may.
        </p>
        {refusal !== undefined && <p role='alert' class='error'>{refusal}</p>}
        <button type='submit' class='primary' disabled={isBusy}>Log in</button>
      </form>
    </main>
  )
}
